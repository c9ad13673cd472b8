"""ShareFetch and ShareAcknowledge: what members of a share group are answered, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, comparing, versions
from compat_tests.differential.requests import a_batch, produce
from compat_tests.differential.workers import (
    ACKNOWLEDGE,
    FETCH,
    Batch,
    initialise,
    released,
    worker,
)
from pyk.wire.apis import ApiKey

ACCEPT, RELEASE, REJECT, RENEW, GAP = [1], [2], [3], [4], [0]
VERSIONS = versions(FETCH)
KNOWN_MS = 1000
"""In which a broker knows the state of partitions that are new to it, also where it is slow."""
LOST_SESSION = {
    "a session with a topic that is not there": Listed(
        "a topic that is not there",
        r"error_code: kafka -1, pyk 0$|acquisition_lock_timeout_ms|responses",
        "Kafka stumbles over it, and answers nothing else to that session any more.",
    ),
}
EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)


def begin(compare: Comparison, name: str, version: int, *counts: int) -> tuple[str, str]:
    """A group, and a topic with batches of so many records."""
    group, topic = f"{name}-v{version}", f"queue-{name}-v{version}"
    compare.sides.create(topic)
    initialise(compare, group, topic)
    write(compare, topic, *counts)
    return group, topic


def write(compare: Comparison, topic: str, *counts: int) -> None:
    for count in counts:
        compare.ask(ApiKey.PRODUCE, 9, "records", produce(a_batch(count), topic=topic))


def test_both_apis_have_the_same_versions() -> None:
    assert versions(ACKNOWLEDGE) == VERSIONS


@EACH_VERSION
@comparing("what becomes of records of a share group")
def test_records_are_acknowledged_in_every_way(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "ways", version, 5, 5)
    with (
        worker(compare, group, "ann", version) as ann,
        worker(compare, group, "bob", version) as bob,
    ):
        ann.fetch("the first fetch", {topic: {0: []}})
        bob.fetch("a fetch when all is taken", {topic: {0: []}}, waits=False)
        ann.acknowledge(
            "some of each", {topic: {0: [(0, 1, ACCEPT), (2, 2, REJECT), (3, 4, RELEASE)]}}
        )
        bob.fetch("what was released")
        bob.acknowledge("one by one", {topic: {0: [(3, 4, [1, 2])]}})
        ann.acknowledge("a gap", {topic: {0: [(5, 5, GAP), (6, 9, [1, 0, 2, 3])]}})
        bob.fetch("what was released again")
        bob.fetch(
            "acknowledged with the next fetch",
            {topic: {0: [(4, 4, ACCEPT), (8, 8, ACCEPT)]}},
            waits=False,
        )
        write(compare, topic, 2)
        ann.fetch("something new")
        ann.fetch(
            "acknowledged, and nothing to fetch", {topic: {0: [(10, 11, ACCEPT)]}}, waits=False
        )


@EACH_VERSION
@comparing("acknowledgements of a share group that are refused")
def test_wrong_acknowledgements_are_refused(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "wrong", version, 10)
    wrong: dict[str, list[Batch]] = {
        "the last before the first": [(3, 2, ACCEPT)],
        "out of order": [(5, 6, ACCEPT), (1, 2, ACCEPT)],
        "the same twice": [(5, 6, ACCEPT), (5, 6, ACCEPT)],
        "overlapping": [(5, 7, ACCEPT), (7, 8, ACCEPT)],
        "no type": [(1, 1, [])],
        "too few types": [(1, 3, [1, 1])],
        "too many types": [(1, 1, [1, 1])],
        "a type that is not there": [(1, 1, [9])],
        "a negative type": [(1, 1, [-1])],
        "a renewal that is not called so": [(1, 1, RENEW)],
        "past what was acquired": [(8, 12, ACCEPT)],
        "all past what was acquired": [(20, 21, ACCEPT)],
        "negative offsets": [(-3, -1, ACCEPT)],
    }
    with (
        worker(compare, group, "ann", version) as ann,
        worker(compare, group, "bob", version) as bob,
    ):
        ann.fetch("the first fetch", {topic: {0: []}})
        bob.fetch("another's first fetch", {topic: {0: []}}, waits=False)
        for name, batches in wrong.items():
            ann.acknowledge(name, {topic: {0: batches}})
            ann.fetch(f"{name}, with a fetch", {topic: {0: batches}}, waits=False)
        bob.acknowledge("of another's records", {topic: {0: [(0, 1, ACCEPT)]}})
        ann.acknowledge("done", {topic: {0: [(0, 4, ACCEPT)]}})
        ann.acknowledge("done again", {topic: {0: [(0, 4, ACCEPT)]}})
        ann.acknowledge("half of it done before", {topic: {0: [(3, 6, ACCEPT)]}})
        ann.acknowledge("of no partition that there is", {topic: {7: [(0, 0, ACCEPT)]}})
        ann.acknowledge("of no topic that there is", {"nobody": {0: [(0, 0, ACCEPT)]}})
        ann.acknowledge("nothing of a partition", {topic: {0: []}})
        ann.acknowledge("nothing at all")
        ann.acknowledge("the rest is as it was", {topic: {0: [(5, 9, ACCEPT)]}})


@EACH_VERSION
@comparing("sessions of share groups")
def test_sessions_are_kept_and_refused(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "sessions", version, 2)
    other = f"{topic}-other"
    compare.sides.create(other, partitions=2)
    initialise(compare, group, other, partitions=2)
    with worker(compare, group, "ann", version) as ann:
        ann.fetch("an epoch without a session", {topic: {0: []}}, epoch=3)
        ann.fetch("the last epoch without a session", {topic: {0: []}}, epoch=-1)
        ann.acknowledge("without a session", {topic: {0: [(0, 0, ACCEPT)]}}, epoch=1)
        ann.fetch("a first fetch that acknowledges", {topic: {0: [(0, 0, ACCEPT)]}}, epoch=0)
        ann.fetch("no member", {topic: {0: []}}, epoch=0, member_id="")
        ann.fetch("a long member", {topic: {0: []}}, epoch=0, member_id="m" * 37)
        ann.acknowledge("no member", epoch=1, member_id="")
        ann.fetch("the first", {topic: {0: []}})
        ann.acknowledge("the first epoch", epoch=0)
        ann.fetch("an epoch that was", epoch=0 + 7, waits=False)
        ann.acknowledge("an epoch that will be", epoch=9)
        ann.fetch("more partitions", {other: {0: [], 1: []}}, waits=False, max_wait_ms=KNOWN_MS)
        write(compare, other, 3)
        ann.fetch("records of a partition that came later")
        ann.fetch("fewer partitions", forgotten={other: [0]}, waits=False)
        ann.fetch("a partition that is not there", {other: {9: []}}, waits=False)
        ann.fetch("it is not there still", waits=False)
        ann.fetch("no records wanted", max_records=0, waits=False)
        ann.fetch("no bytes wanted", max_bytes=0, min_bytes=0, waits=False)
        ann.fetch("the end", {topic: {0: [(0, 0, ACCEPT)]}}, epoch=-1)
        ann.fetch("after the end", epoch=ann.epoch)
    with worker(compare, group, "bob", version) as bob:
        bob.fetch("what came back", {topic: {0: []}})
        bob.acknowledge("the end", {topic: {0: [(1, 1, ACCEPT)]}}, epoch=-1)
        bob.acknowledge("after the end", epoch=bob.epoch)


@EACH_VERSION
@comparing("a topic that is not there, in a session of a share group", LOST_SESSION)
def test_a_topic_that_is_not_there(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "missing", version, 2)
    with worker(compare, group, "ann", version) as ann:
        ann.fetch("the first", {topic: {0: []}})
        ann.fetch("a topic that is not there", {"nobody": {0: []}}, waits=False)


@EACH_VERSION
@comparing("what members of share groups give back")
def test_what_is_given_back_at_the_end(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "back", version, 3)
    with worker(compare, group, "ann", version) as ann:
        ann.fetch("the first", {topic: {0: []}})
        ann.fetch("the end", {topic: {0: [(0, 0, ACCEPT)]}}, epoch=-1)
    with worker(compare, group, "bob", version) as bob:
        bob.fetch("after an orderly end", {topic: {0: []}})
    with worker(compare, group, "cas", version) as cas:
        cas.fetch("after a connection was lost", {topic: {0: []}})


@EACH_VERSION
@comparing("how much a member of a share group is handed")
def test_limits_are_kept(compare: Comparison, version: int) -> None:
    group, topic = begin(compare, "limits", version, 4, 4, 4, 4)
    with (
        worker(compare, group, "ann", version) as ann,
        worker(compare, group, "bob", version) as bob,
    ):
        ann.fetch("fewer than a batch", {topic: {0: []}}, max_records=2)
        ann.fetch("a batch and some", max_records=5)
        bob.fetch("few at a time", {topic: {0: []}}, batch_size=1)
        bob.fetch("nothing left", waits=False)
        ann.acknowledge("all back", {topic: {0: [(0, 3, RELEASE)]}})
        bob.fetch("some of what came back", max_records=2)
        bob.fetch("the rest", waits=False)


@comparing("strict limits and renewals of share groups")
def test_what_came_with_the_second_version(compare: Comparison) -> None:
    version = 2
    group, topic = begin(compare, "second", version, 6, 6)
    with (
        worker(compare, group, "ann", version) as ann,
        worker(compare, group, "bob", version) as bob,
    ):
        ann.fetch("a strict limit", {topic: {0: []}}, max_records=2, share_acquire_mode=1)
        bob.fetch("another", {topic: {0: []}}, max_records=3, share_acquire_mode=1)
        ann.fetch("more than a batch", max_records=5, share_acquire_mode=1)
        nothing: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 0,
            "max_records": 0,
        }
        ann.fetch(
            "a renewal that fetches", {topic: {0: [(0, 0, RENEW)]}}, epoch=2, is_renew_ack=True
        )
        ann.fetch("a renewal", {topic: {0: [(0, 0, RENEW)]}}, is_renew_ack=True, **nothing)
        ann.fetch("with others", {topic: {0: [(0, 1, [4, 1])]}}, is_renew_ack=True, **nothing)
        ann.acknowledge("a renewal", {topic: {0: [(0, 0, RENEW)]}}, is_renew_ack=True)
        ann.acknowledge("of what is done", {topic: {0: [(1, 1, RENEW)]}}, is_renew_ack=True)
        ann.acknowledge(
            "it is called a renewal and is none", {topic: {0: [(0, 0, ACCEPT)]}}, is_renew_ack=True
        )


LIMIT = 5
"""How often records are handed out, if nobody has said otherwise."""


@pytest.mark.parametrize("count", [1, 4, 9])
@comparing("records of a share group that are handed out often")
def test_a_record_is_handed_out_so_often_and_at_last_alone(compare: Comparison, count: int) -> None:
    """Which of its neighbours it meets in between is a side's own."""
    group, topic = begin(compare, f"limited-{count}", 1, count)
    for side in compare.sides:
        met: dict[int, list[int]] = {offset: [] for offset in range(count)}
        for handed in released(side, group, topic):
            for offset, delivery in handed.items():
                met[offset].append(delivery)
                assert delivery < LIMIT or len(handed) == 1, "the last delivery is alone"
        assert met == {offset: list(range(1, LIMIT + 1)) for offset in range(count)}
