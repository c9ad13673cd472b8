"""The state of share partitions: what each API answers in each state, and what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.conftest import ONLY_KAFKA
from compat_tests.differential.listed import SAYS_WHY_NOT_FOUND, WHY_NOBODY_IS_FOUND
from compat_tests.differential.sides import NOBODY, Side, Sides, until
from compat_tests.differential.stored import bounds, stored_state
from pyk.coordinator.internal_topics import SHARE_TOPIC, partition_for
from pyk.coordinator.share_coordinator import SharePartitionKey
from pyk.errors import ErrorCode
from pyk.metadata.records import printed
from pyk.wire.apis import ApiKey
from pyk.wire.messages import delete_share_group_state as deleting
from pyk.wire.messages import initialize_share_group_state as initialising
from pyk.wire.messages import read_share_group_state as reading
from pyk.wire.messages import read_share_group_state_summary as summarising
from pyk.wire.messages import write_share_group_state as writing
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest

INITIALIZE, READ = ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE
WRITE, DELETE = ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE
SUMMARY, FIND = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, ApiKey.FIND_COORDINATOR
TOPIC, OTHER, MISSING = "shared", "shared-too", "never made"
PER_SNAPSHOT = 5
"""As the suite configures it."""

Batch = tuple[int, int, int, int]


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(TOPIC, OTHER, partitions=4)
    sides.each(begin)


def begin(side: Side) -> None:
    """Wait until the topic of state is there, and each part of it is loaded."""
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{printed(NOBODY)}:0"])
    until(lambda: side.ask(FIND, 6, find).coordinators[0].error_code == 0)
    probe = summary("probe", *range(500), topic=MISSING)(0, side)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def is_loaded() -> bool:
        [found] = side.ask(SUMMARY, 0, probe).results
        return all(each.error_code == unknown for each in found.partitions)

    until(is_loaded)


def initialize(
    group: str, *numbers: int, topic: str = TOPIC, state_epoch: int = 0, start_offset: int = 0
) -> Make:
    def make(version: int, side: Side) -> initialising.InitializeShareGroupStateRequest:
        partitions = [
            initialising.PartitionData(
                partition=number, state_epoch=state_epoch, start_offset=start_offset
            )
            for number in numbers
        ]
        asked = initialising.InitializeStateData(topic_id=side.id_of(topic), partitions=partitions)
        return initialising.InitializeShareGroupStateRequest(group_id=group, topics=[asked])

    return make


def read(group: str, *numbers: int, topic: str = TOPIC, leader_epoch: int = 0) -> Make:
    def make(version: int, side: Side) -> reading.ReadShareGroupStateRequest:
        partitions = [
            reading.PartitionData(partition=number, leader_epoch=leader_epoch) for number in numbers
        ]
        asked = reading.ReadStateData(topic_id=side.id_of(topic), partitions=partitions)
        return reading.ReadShareGroupStateRequest(group_id=group, topics=[asked])

    return make


def write(
    group: str,
    number: int,
    *batches: Batch,
    topic: str = TOPIC,
    state_epoch: int = 0,
    leader_epoch: int = 0,
    start_offset: int = -1,
    complete: int = 0,
) -> Make:
    names = "first_offset", "last_offset", "delivery_state", "delivery_count"

    def make(version: int, side: Side) -> writing.WriteShareGroupStateRequest:
        count: dict[str, Any] = {"delivery_complete_count": complete} if version >= 1 else {}
        partition = writing.PartitionData(
            partition=number,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            state_batches=[
                writing.StateBatch(**dict(zip(names, batch, strict=True))) for batch in batches
            ],
            **count,
        )
        asked = writing.WriteStateData(topic_id=side.id_of(topic), partitions=[partition])
        return writing.WriteShareGroupStateRequest(group_id=group, topics=[asked])

    return make


def summary(group: str, *numbers: int, topic: str = TOPIC, leader_epoch: int = 0) -> Make:
    def make(version: int, side: Side) -> summarising.ReadShareGroupStateSummaryRequest:
        partitions = [
            summarising.PartitionData(partition=number, leader_epoch=leader_epoch)
            for number in numbers
        ]
        asked = summarising.ReadStateSummaryData(topic_id=side.id_of(topic), partitions=partitions)
        return summarising.ReadShareGroupStateSummaryRequest(group_id=group, topics=[asked])

    return make


def delete(group: str, *numbers: int, topic: str = TOPIC) -> Make:
    def make(version: int, side: Side) -> deleting.DeleteShareGroupStateRequest:
        partitions = [deleting.PartitionData(partition=number) for number in numbers]
        asked = deleting.DeleteStateData(topic_id=side.id_of(topic), partitions=partitions)
        return deleting.DeleteShareGroupStateRequest(group_id=group, topics=[asked])

    return make


def look(compare: Comparison, case: str, group: str, *numbers: int) -> None:
    """What can be seen of partitions without changing anything."""
    compare.add(SUMMARY, case, summary(group, *numbers))
    compare.add(READ, case, read(group, *numbers, leader_epoch=-1))


def judge_stored(
    compare: Comparison, case: str, group: str, number: int, topic: str = TOPIC
) -> int:
    """Compare what is on the logs. How many records there are."""

    def records(side: Side) -> list[Any]:
        return stored_state(side, SharePartitionKey(group, side.id_of(topic), number))

    kafka, pyk = compare.sides.each(records)
    compare.judge(f"the log: {case}", kafka, pyk)
    return len(kafka)


UNORDERED = ("results", "partitions")


# FindCoordinator


def keys(*texts: str) -> Make:
    """`{}` is for the id of a topic."""

    def make(version: int, side: Side) -> FindCoordinatorRequest:
        given = [text.format(printed(NOBODY)) for text in texts]
        if version < 4:
            return FindCoordinatorRequest(key=given[0], key_type=2)
        return FindCoordinatorRequest(coordinator_keys=given, key_type=2)

    return make


@comparing("FIND_COORDINATOR of share partitions", {SAYS_WHY_NOT_FOUND: WHY_NOBODY_IS_FOUND})
def test_coordinators_are_found_alike(compare: Comparison) -> None:
    compare.add(FIND, "of a share partition", keys("g:{}:0"), since=1)
    compare.add(FIND, "of many", keys("g:{}:0", "h:{}:1", "g:{}:0"), since=4)
    for good in ("g:{}:-3", "g:{}:+3", "g:{}==:0", " g :{}:0", "g:{}:0:", "ünïcode:{}:0"):
        compare.add(FIND, f"of {good!r}", keys(good), since=4)
    for bad in ("", "a", "a:b", "a:b:c", "g:AAAA:0", ":{}:0", " :{}:0", "g:{}:", "g:{}:x"):
        compare.add(FIND, f"of {bad!r}", keys(bad), since=1)
    for bad in ("g:{}:99999999999", "g:{}:1.0", "g:{}:0:1", "g:{}: 1", "::", "g:{}x:0"):
        compare.add(FIND, f"of {bad!r}", keys(bad), since=4)
    compare.add(FIND, "of good and bad", keys("a", "g:{}:0"), since=4)


# The topic


@comparing("the topic of share partitions' state")
def test_the_topic_is_made_alike(compare: Comparison) -> None:
    names = ["cleanup.policy", "compression.type", "min.insync.replicas", "retention.ms"]
    names += ["segment.bytes", "unclean.leader.election.enable", "max.message.bytes"]
    resource = DescribeConfigsResource(
        resource_type=2, resource_name=SHARE_TOPIC, configuration_keys=names
    )

    def described(side: Side) -> dict[str, tuple[str | None, int]]:
        request = DescribeConfigsRequest(resources=[resource])
        [found] = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        return {each.name: (each.value, each.config_source) for each in found.configs}

    compare.judge("its configuration", *compare.sides.each(described))


# States and epochs


@comparing("a share partition's life", unordered=UNORDERED)
def test_a_share_partition_lives_alike(compare: Comparison) -> None:
    look(compare, "before it begins", "life", 0, 1)
    compare.add(WRITE, "before it begins", write("life", 0))
    compare.add(READ, "before it begins", read("life", 0))
    compare.add(DELETE, "before it begins", delete("life", 0))
    compare.add(INITIALIZE, "it begins", initialize("life", 0, start_offset=10))
    look(compare, "it has begun", "life", 0, 1)
    for version in versions(WRITE):
        at = 100 * version
        for case, made in {
            "one batch": write("life", 0, (at + 10, at + 19, 2, 1), complete=10),
            "two batches": write("life", 0, (at + 25, at + 29, 0, 1), (at + 40, at + 49, 4, 2)),
            "the start moves": write("life", 0, start_offset=at + 15, complete=5),
            "a batch from before": write("life", 0, (at, at + 17, 2, 3), complete=-1),
        }.items():
            compare.ask(WRITE, version, case, made)
            look(compare, f"after v{version} {case}", "life", 0)
    compare.add(READ, "by the next leader", read("life", 0, leader_epoch=1))
    look(compare, "the next leader has read", "life", 0)
    compare.add(DELETE, "it ends", delete("life", 0))
    look(compare, "it has ended", "life", 0)
    compare.add(INITIALIZE, "it begins again", initialize("life", 0, state_epoch=0))
    assert judge_stored(compare, "a life", "life", 0) > 8


@comparing("share state: epochs", unordered=UNORDERED)
def test_epochs_are_fenced_alike(compare: Comparison) -> None:
    group = "epochs"
    compare.add(INITIALIZE, "at epoch 3", initialize(group, 0, state_epoch=3))
    for epoch in (2, -1, -2, 3, 4, 3):
        made = initialize(group, 1, 0, state_epoch=epoch, start_offset=epoch)
        compare.add(INITIALIZE, f"at epoch {epoch}", made)
        look(compare, f"at epoch {epoch}", group, 0, 1)
    for epoch in (0, 2, 1, -1, -2, 2, 5):
        compare.add(READ, f"by leader {epoch}", read(group, 0, leader_epoch=epoch))
        look(compare, f"after a read by leader {epoch}", group, 0)
    for state_epoch in (3, 4, 5, -1, -2):
        for leader_epoch in (4, 5, 6, -1, -2):
            made = write(group, 0, state_epoch=state_epoch, leader_epoch=leader_epoch)
            compare.add(WRITE, f"by leader {leader_epoch} at {state_epoch}", made)
            compare.add(SUMMARY, f"by {leader_epoch} at {state_epoch}", summary(group, 0))
    compare.add(SUMMARY, "by an old leader", summary(group, 0, leader_epoch=1))
    compare.add(SUMMARY, "by a new leader", summary(group, 0, leader_epoch=9))
    assert judge_stored(compare, "epochs of leaders", group, 1) > 2


@comparing("share state: a new beginning", unordered=UNORDERED)
def test_a_partition_begins_anew_alike(compare: Comparison) -> None:
    group = "anew"
    for start_offset in (5, -1, 0, -5, 7):
        made = initialize(group, 0, start_offset=start_offset)
        compare.add(INITIALIZE, f"at {start_offset}", made)
        look(compare, f"at {start_offset}", group, 0)
    compare.add(WRITE, "some batches", write(group, 0, (8, 9, 2, 1), complete=2))
    compare.add(READ, "by leader 4", read(group, 0, leader_epoch=4))
    compare.add(INITIALIZE, "anew", initialize(group, 0, state_epoch=1, start_offset=3))
    look(compare, "anew", group, 0)
    for epoch in (3, 4):
        compare.add(READ, f"anew by leader {epoch}", read(group, 0, leader_epoch=epoch))
        look(compare, f"anew by leader {epoch}", group, 0)
    assert judge_stored(compare, "a new beginning", group, 0) > 7


# Batches


SHAPES: dict[str, list[list[Batch]]] = {
    "apart": [[(0, 4, 0, 1)], [(10, 14, 2, 1)], [(6, 8, 4, 1)]],
    "touching": [[(0, 4, 2, 1)], [(5, 9, 2, 1)], [(10, 14, 2, 2)]],
    "the same again": [[(0, 9, 2, 1)], [(0, 9, 2, 1)]],
    "inside": [[(0, 19, 0, 1)], [(5, 9, 2, 1)]],
    "inside and less": [[(0, 19, 2, 2)], [(5, 9, 4, 1)]],
    "around": [[(5, 9, 0, 1)], [(0, 19, 2, 1)]],
    "around and less": [[(5, 9, 2, 2)], [(0, 19, 0, 1)]],
    "over the left": [[(5, 14, 0, 1)], [(0, 9, 2, 1)]],
    "over the right": [[(5, 14, 0, 1)], [(10, 19, 2, 1)]],
    "over the right and less": [[(5, 14, 0, 3)], [(10, 19, 2, 1)]],
    "over many": [[(0, 4, 0, 1), (10, 14, 0, 2), (20, 24, 4, 1)], [(2, 22, 2, 1)]],
    "many at once": [[(20, 24, 4, 1), (0, 9, 0, 1), (5, 14, 2, 1), (3, 22, 0, 2)]],
    "states of one count": [[(0, 9, 0, 1)], [(0, 9, 4, 1)], [(0, 9, 2, 1)]],
    "more of a lower state": [[(0, 9, 4, 1)], [(0, 9, 0, 2)]],
}


@comparing("share state: batches", unordered=UNORDERED)
def test_batches_are_combined_alike(compare: Comparison) -> None:
    for name, steps in SHAPES.items():
        group = f"batches {name}"
        compare.add(INITIALIZE, name, initialize(group, 0))
        for number, batches in enumerate(steps):
            compare.ask(WRITE, 1, f"{name} {number}", write(group, 0, *batches))
            compare.ask(READ, 0, f"{name} {number}", read(group, 0))
        compare.ask(WRITE, 1, f"{name}, cut", write(group, 0, start_offset=7))
        compare.ask(READ, 0, f"{name}, cut", read(group, 0))
        assert judge_stored(compare, name, group, 0) >= len(steps) + 2


# What is written


@comparing("share state: snapshots", unordered=UNORDERED)
def test_snapshots_come_alike(compare: Comparison) -> None:
    group = "snapshots"
    compare.add(INITIALIZE, "begins", initialize(group, 0))
    leader_epoch = 0
    for number in range(3 * PER_SNAPSHOT + 4):
        made = write(
            group,
            0,
            (number, number, 2 * (number % 2), 1),
            leader_epoch=leader_epoch,
            complete=number,
        )
        compare.ask(WRITE, 1, f"the {number}th", made)
        if number in (PER_SNAPSHOT, 2 * PER_SNAPSHOT - 1):
            leader_epoch += 1
            made = read(group, 0, leader_epoch=leader_epoch)
            compare.ask(READ, 0, f"by leader {leader_epoch}", made)
    look(compare, "after snapshots", group, 0)
    assert judge_stored(compare, "snapshots", group, 0) > 2 * PER_SNAPSHOT


STAYS_FENCED = {
    "leaders stay fenced": Listed(
        "after a new beginning",
        "leader_epoch",
        "The next snapshot after a new beginning tells of the leader that has read before it. In "
        "Kafka it does not, and an old leader may read again once only that snapshot is left.",
    )
}


@comparing("share state: snapshots after a new beginning", STAYS_FENCED, unordered=UNORDERED)
def test_snapshots_after_a_new_beginning_differ_by_who_is_fenced(compare: Comparison) -> None:
    group, case = "new-snapshots", "after a new beginning"
    compare.ask(INITIALIZE, 0, "begins", initialize(group, 0))
    compare.ask(READ, 0, "by leader 3", read(group, 0, leader_epoch=3))
    compare.ask(INITIALIZE, 0, "anew", initialize(group, 0, state_epoch=1))
    compare.ask(SUMMARY, 1, "anew", summary(group, 0))
    for number in range(PER_SNAPSHOT):
        made = write(group, 0, (number, number, 2, 1), state_epoch=1, leader_epoch=3)
        compare.ask(WRITE, 1, f"{number} {case}", made)
    compare.ask(SUMMARY, 1, case, summary(group, 0))
    compare.ask(READ, 0, "by leader 2", read(group, 0, leader_epoch=2))
    assert judge_stored(compare, case, group, 0) == PER_SNAPSHOT + 3


# What is malformed, and many at once


@comparing("share state: what is refused", unordered=UNORDERED)
def test_what_is_refused_is_refused_alike(compare: Comparison) -> None:
    apis: dict[ApiKey, Callable[..., Make]] = {
        INITIALIZE: initialize,
        READ: read,
        SUMMARY: summary,
        DELETE: delete,
    }
    for key, make in apis.items():
        compare.add(key, "of nothing", make("g"))
        compare.add(key, "of no group", make("", 0))
        compare.add(key, "of a group of blanks", make(" ", 0))
        compare.add(key, "below zero", make("g", -1))
        compare.add(key, "beyond the last", make("g", 4, 10**6))
        compare.add(key, "of no topic", make("g", 0, topic=MISSING))
        compare.add(key, "twice", make("g", 0, 1, 0))
        compare.add(key, "of a group with a colon", make("g:h", 0))
        compare.add(key, "of an internal topic", make("g", 0, topic=SHARE_TOPIC))
    for number in (-1, 4):
        compare.add(WRITE, f"to {number}", write("g", number))
    compare.add(WRITE, "to no topic", write("g", 0, topic=MISSING))
    compare.add(WRITE, "of no group", write("", 0))


@comparing("share state: many topics", unordered=UNORDERED)
def test_many_topics_are_answered_alike(compare: Comparison) -> None:
    group = "many"

    two = initialize(group, 0, 1, 2), initialize(group, 0, 9, topic=OTHER)
    compare.add(INITIALIZE, "both", joined(*two))
    compare.add(READ, "both", joined(read(group, 0, 1), read(group, 0, 3, topic=OTHER)))
    compare.add(READ, "nothing of one", joined(read(group, 0, 1), read(group, topic=OTHER)))
    none_of_one = initialize(group, 0, 1), initialize(group, topic=OTHER)
    compare.add(INITIALIZE, "nothing of one", joined(*none_of_one))
    compare.add(READ, "one in pieces", joined(read(group, 0), read(group, 1, 0)))
    compare.add(DELETE, "both", joined(delete(group, 0, 1), delete(group, 0, 9, topic=OTHER)))


def joined(first: Make, second: Make) -> Make:
    """The topics of both in one request."""

    def make(version: int, side: Side) -> Any:
        one, other = first(version, side), second(version, side)
        return type(one)(group_id=one.group_id, topics=one.topics + other.topics)

    return make


@comparing("share state: a topic that goes", unordered=UNORDERED)
def test_state_goes_with_its_topic_alike(compare: Comparison) -> None:
    group, topic = "gone", "shared-for-a-while"
    compare.sides.create(topic, partitions=2)
    compare.add(INITIALIZE, "before", initialize(group, 0, topic=topic))
    compare.add(WRITE, "before", write(group, 0, (5, 9, 2, 1), topic=topic))

    def drop(side: Side) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        side.ask(ApiKey.DELETE_TOPICS, 5, request)

    compare.sides.each(drop)
    compare.sides.settle()
    for key, made in {
        INITIALIZE: initialize(group, 0, topic=topic),
        WRITE: write(group, 0, topic=topic),
        READ: read(group, 0, topic=topic),
        SUMMARY: summary(group, 0, topic=topic),
        DELETE: delete(group, 0, topic=topic),
    }.items():
        compare.add(key, "after", made)
    assert judge_stored(compare, "a topic that goes", group, 0, topic) == 4


# The log is kept short


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Both, looking for what can go all the time."""
    options = {
        "share.coordinator.snapshot.update.records.per.snapshot": "0",
        "share.coordinator.state.topic.prune.interval.ms": "300",
        "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
    }
    with Sides.open(tmp_path_factory.mktemp("tidy"), options, ONLY_KAFKA) as sides:
        sides.create(TOPIC, partitions=200)
        sides.each(begin)
        yield sides


def test_logs_are_cut_alike(tidy: Sides) -> None:
    def cut(side: Side) -> None:
        key = SharePartitionKey("cut", side.id_of(TOPIC), 0)
        assert_done(side, INITIALIZE, initialize("cut", 0))
        for number in range(20):
            assert_done(side, WRITE, write("cut", 0, (number, number, 2, 1)))
        until(lambda: bounds(side, SHARE_TOPIC, key.text)[0] >= 20)
        assert_done(side, DELETE, delete("cut", 0))
        until(lambda: bounds(side, SHARE_TOPIC, key.text)[0] >= 21)

    tidy.each(cut)


def test_a_partition_at_rest_does_not_hold_others_back_alike(tidy: Sides) -> None:
    def work(side: Side) -> None:
        quiet = SharePartitionKey("quiet", side.id_of(TOPIC), 0)
        shard = partition_for(quiet.text, 50)
        busy = next(
            number
            for number in range(200)
            if partition_for(quiet._replace(group_id="busy", partition=number).text, 50) == shard
        )
        assert_done(side, INITIALIZE, initialize("quiet", 0, start_offset=3))
        assert_done(side, INITIALIZE, initialize("busy", busy))
        held_at = bounds(side, SHARE_TOPIC, quiet.text)[1]

        def is_free() -> bool:
            assert_done(side, WRITE, write("busy", busy))
            return bounds(side, SHARE_TOPIC, quiet.text)[0] > held_at

        until(is_free)
        [found] = side.ask(READ, 0, read("quiet", 0)(0, side)).results
        assert found.partitions[0].start_offset == 3

    tidy.each(work)


def assert_done(side: Side, key: ApiKey, make: Make) -> None:
    version = versions(key)[-1]
    [found] = side.ask(key, version, make(version, side)).results
    assert [each.error_code for each in found.partitions] == [0]
