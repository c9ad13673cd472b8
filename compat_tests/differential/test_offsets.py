"""FindCoordinator, committed offsets, and groups that have nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Make, comparing, versions
from compat_tests.differential.listed import SAYS_WHY_NOT_FOUND, WHY_NOBODY_IS_FOUND
from compat_tests.differential.sides import Side, Sides, until
from compat_tests.differential.stored import stored
from pyk.types import ZERO_UUID
from pyk.wire.apis import ApiKey
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

FIND, COMMIT, FETCH = ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH
DELETE_OFFSETS, DELETE = ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS
LIST, DESCRIBE = ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS
TOPIC, OTHER = "committed", "committed-too"
GROUP, TRANSACTION, SHARE = range(3)


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(TOPIC, OTHER, partitions=3)


def find(*keys: str, key_type: int = GROUP) -> Make:
    def make(version: int, side: Side) -> FindCoordinatorRequest:
        if version < 4:
            return FindCoordinatorRequest(key=keys[0], key_type=key_type if version else GROUP)
        return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)

    return make


@comparing("FIND_COORDINATOR", {SAYS_WHY_NOT_FOUND: WHY_NOBODY_IS_FOUND})
def test_coordinators_are_found_alike(compare: Comparison) -> None:
    for group_id in ("g", "", "ünïcode", "x" * 300):
        compare.add(FIND, f"of {group_id[:10]!r}", find(group_id))
    compare.add(FIND, "of many", find("a", "b", "a"), since=4)
    compare.add(FIND, "of nobody", lambda version, side: FindCoordinatorRequest(), since=4)
    compare.add(FIND, "of a transaction", find("t", key_type=TRANSACTION), since=1)
    compare.add(FIND, "of a share partition", find("s:x:0", key_type=SHARE), since=1)
    compare.add(FIND, "of what is no type", find("s", key_type=7), since=1)


def commit(
    group_id: str,
    *offsets: int,
    topic: str = TOPIC,
    first: int = 0,
    metadata: str | None = "noted",
    leader_epoch: int = -1,
    **more: Any,
) -> Make:
    """Offsets for the topic's partitions from the first on."""

    def make(version: int, side: Side) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch if version >= 6 else -1,
                committed_metadata=metadata,
            )
            for number, offset in enumerate(offsets, start=first)
        ]
        named = OffsetCommitRequestTopic(
            name=topic if version < 10 else "",
            topic_id=side.id_of(topic) if version >= 10 else ZERO_UUID,
            partitions=partitions,
        )
        return OffsetCommitRequest(group_id=group_id.format(version), topics=[named], **more)

    return make


def fetch(
    group_id: str,
    *partitions: int,
    topic: str = TOPIC,
    every: bool = False,
    require_stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> Make:
    def make(version: int, side: Side) -> OffsetFetchRequest:
        stable: dict[str, Any] = {"require_stable": require_stable} if version >= 7 else {}
        named = group_id.format(version)
        if version < 8:
            asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
            old = None if every and version >= 2 else asked
            return OffsetFetchRequest(group_id=named, topics=old, **stable)
        topics = [
            OffsetFetchRequestTopics(
                name=topic if version < 10 else "",
                topic_id=side.id_of(topic) if version >= 10 else ZERO_UUID,
                partition_indexes=list(partitions),
            )
        ]
        member: dict[str, Any] = (
            {"member_id": member_id, "member_epoch": member_epoch} if version >= 9 else {}
        )
        group = OffsetFetchRequestGroup(group_id=named, topics=None if every else topics, **member)
        return OffsetFetchRequest(groups=[group, group], **stable)

    return make


@comparing("committed offsets", unordered=("topics", "partitions"))
def test_offsets_are_committed_alike(compare: Comparison) -> None:
    compare.add(FETCH, "before there is a group", fetch("g{}", 0, 1))
    compare.add(FETCH, "all before there is a group", fetch("g{}", every=True))
    compare.add(COMMIT, "for the first time", commit("g{}", 5, 6))
    compare.add(COMMIT, "again, backwards", commit("g{}", 3, leader_epoch=2))
    compare.add(COMMIT, "without a note", commit("g{}", 9, first=1, metadata=None))
    compare.add(COMMIT, "a negative offset", commit("g{}", -1, first=2))
    compare.add(COMMIT, "a note of full length", commit("g{}", 1, first=2, metadata="é" * 4096))
    compare.add(COMMIT, "a note that is too long", commit("g{}", 2, metadata="x" * 4097))
    compare.add(COMMIT, "a note of wide characters", commit("g{}", 2, metadata="😀" * 2049))
    compare.add(COMMIT, "of a partition that is not there", commit("g{}", 7, 8, first=2))
    compare.add(COMMIT, "of no such partition", commit("g{}", 7, first=-1))
    compare.add(COMMIT, "of a topic that is not there", commit("g{}", 7, topic="nobody"))
    compare.add(
        COMMIT,
        "of nothing",
        lambda version, side: OffsetCommitRequest(group_id="nothing", topics=[]),
    )
    compare.add(COMMIT, "for a group without a name", commit("", 7))
    compare.add(
        COMMIT,
        "by a member of no group",
        commit("h{}", 7, member_id="m", generation_id_or_member_epoch=1),
    )
    compare.add(
        COMMIT, "of a generation of no group", commit("h{}", 7, generation_id_or_member_epoch=0)
    )
    compare.add(COMMIT, "by a member of no generation", commit("h{}", 7, member_id="m"))
    compare.add(
        COMMIT,
        "by a member of a group without any",
        commit("g{}", 7, member_id="m", generation_id_or_member_epoch=1),
    )
    compare.add(COMMIT, "by a member, of no generation", commit("g{}", 7, member_id="m"))
    compare.add(COMMIT, "of a generation", commit("g{}", 7, generation_id_or_member_epoch=3))
    compare.add(COMMIT, "of generation -2", commit("g{}", 7, generation_id_or_member_epoch=-2))
    compare.add(COMMIT, "by an instance", commit("g{}", 7, group_instance_id="i"), since=7)
    compare.add(COMMIT, "that expires", commit("e{}", 7, retention_time_ms=1), until=4)
    for stable in (False, True):
        asked: dict[str, Any] = {"require_stable": stable}
        compare.add(FETCH, f"some, {stable}", fetch("g{}", 0, 1, 2, **asked))
        compare.add(FETCH, f"all, {stable}", fetch("g{}", every=True, **asked))
        compare.add(FETCH, f"others, {stable}", fetch("g{}", 2, 9, -1, 0, 0, **asked))
        compare.add(FETCH, f"no topic, {stable}", fetch("g{}", 0, topic="nobody", **asked))
        compare.add(FETCH, f"none, {stable}", fetch("g{}", **asked))
    compare.add(FETCH, "of a group without a name", fetch("", 0))
    compare.add(FETCH, "of a group that was not made", fetch("h{}", 0))
    compare.add(FETCH, "as a member", fetch("g{}", 0, member_id="m", member_epoch=1), since=9)
    compare.add(FETCH, "as one of no epoch", fetch("g{}", 0, member_id="m"), since=9)
    compare.add(FETCH, "as nobody of an epoch", fetch("g{}", 0, member_epoch=1), since=9)
    compare.add(FETCH, "as a member of nothing", fetch("x", 0, member_id="m"), since=9)


def _several(compare: Comparison) -> Iterator[tuple[int, Make]]:
    for version in versions(FETCH):
        if version >= 8:
            yield (
                version,
                lambda v, side: OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequestGroup(group_id=group_id, topics=None)
                        for group_id in ("g9", "nobody", "", "g9")
                    ]
                ),
            )


@comparing("offsets of many groups", unordered=("topics", "partitions"))
def test_many_groups_are_answered_alike(compare: Comparison) -> None:
    for version, make in _several(compare):
        compare.ask(FETCH, version, "of many groups", make)
    compare.add(FETCH, "of no group", lambda version, side: OffsetFetchRequest(), since=8)


def delete_offsets(group_id: str, *partitions: int, topic: str = TOPIC) -> Make:
    asked = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=asked)]
    return lambda version, side: OffsetDeleteRequest(group_id=group_id, topics=topics)


def delete_nothing(group_id: str) -> Make:
    return lambda version, side: OffsetDeleteRequest(group_id=group_id, topics=[])


def named(*group_ids: str) -> Make:
    return lambda version, side: DeleteGroupsRequest(groups_names=list(group_ids))


def described(*group_ids: str, operations: bool = False) -> Make:
    return lambda version, side: DescribeGroupsRequest(
        groups=list(group_ids),
        **({"include_authorized_operations": operations} if version >= 3 else {}),
    )


@comparing("groups without members", unordered=("topics", "partitions", "groups", "results"))
def test_groups_without_members_are_alike(compare: Comparison) -> None:
    compare.add(COMMIT, "to begin with", commit("d{}", 1, 2, 3))
    for states in ([], ["Empty"], ["empty", "STABLE"], ["Stable"], ["nonsense"], [""]):
        compare.add(LIST, f"in states {states}", listed(states_filter=states), since=4)
    for types in ([], ["classic"], ["CLASSIC", "share"], ["consumer"], ["nonsense"]):
        compare.add(LIST, f"of types {types}", listed(types_filter=types), since=5)
    compare.add(LIST, "all", listed())
    compare.add(DESCRIBE, "one", described("d5"))
    compare.add(DESCRIBE, "one that is not there", described("nobody"))
    compare.add(DESCRIBE, "one without a name", described(""))
    compare.add(DESCRIBE, "none", described())
    compare.add(DESCRIBE, "what may be done", described("d5", "nobody", operations=True), since=3)
    compare.add(DELETE_OFFSETS, "one", delete_offsets("d5", 0))
    compare.add(DELETE_OFFSETS, "again", delete_offsets("d5", 0))
    compare.add(DELETE_OFFSETS, "of no partition", delete_offsets("d5", 1, 9))
    compare.add(DELETE_OFFSETS, "of no topic", delete_offsets("d5", 1, topic="nobody"))
    for group_id in ("d5", "nobody", ""):
        compare.add(DELETE_OFFSETS, f"nothing of {group_id!r}", delete_nothing(group_id))
        compare.add(
            DELETE_OFFSETS,
            f"of a topic that is not there, of {group_id!r}",
            delete_offsets(group_id, 1, topic="nobody"),
        )
        compare.add(DELETE_OFFSETS, f"no partition, of {group_id!r}", delete_offsets(group_id))
    compare.add(DELETE_OFFSETS, "of no group", delete_offsets("nobody", 0))
    compare.add(DELETE_OFFSETS, "without a name", delete_offsets("", 0))
    compare.add(FETCH, "what is left", fetch("d5", every=True))
    compare.add(DELETE_OFFSETS, "the rest", delete_offsets("d5", 0, 1, 2))
    compare.add(FETCH, "nothing is left", fetch("d5", every=True))
    compare.add(DESCRIBE, "without offsets", described("d5"))
    compare.add(LIST, "without offsets", listed())
    for version in versions(DELETE):
        group_id = f"d{version + 6}"
        compare.ask(DELETE, version, "one", named(group_id))
        compare.ask(DELETE, version, "again", named(group_id))
        compare.ask(FETCH, 5, "deleted", fetch(group_id, every=True))
    compare.add(DELETE, "without a name", named(""))
    compare.add(DELETE, "one twice", named("d5", "d5", "nobody"))
    compare.add(DELETE, "none", named())
    compare.add(LIST, "those that are left", listed())


def listed(**filters: Any) -> Make:
    return lambda version, side: ListGroupsRequest(**filters)


@comparing("offsets of deleted topics", unordered=("topics", "partitions"))
def test_offsets_go_with_their_topic(compare: Comparison, sides: Sides) -> None:
    sides.create("doomed", partitions=2)
    compare.ask(COMMIT, 9, "to begin with", commit("doom", 4, 5, topic="doomed"))
    compare.ask(COMMIT, 9, "of another", commit("doom", 6, topic=OTHER))
    doomed = DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=30_000)
    for side in sides:
        side.ask(ApiKey.DELETE_TOPICS, 5, doomed)
    asked = fetch("doom", every=True)

    def topics(side: Side) -> int:
        return len(side.ask(FETCH, 9, asked(9, side)).groups[0].topics)

    until(lambda: sides.each(topics) == (1, 1))
    compare.add(FETCH, "after that", asked)
    compare.add(FETCH, "by id", fetch("doom", 0, topic="doomed"), since=10)


@comparing("the records of offsets")
def test_the_same_is_written(compare: Comparison, sides: Sides) -> None:
    group_id = "written"
    for version in versions(COMMIT):
        compare.ask(COMMIT, version, "one", commit(group_id, 1, 2))
    compare.ask(COMMIT, 4, "that expires", commit(group_id, 1, retention_time_ms=10**6))
    compare.ask(COMMIT, 9, "with an epoch", commit(group_id, 1, 5, leader_epoch=3, metadata=None))
    compare.ask(DELETE_OFFSETS, 0, "one", delete_offsets(group_id, 0))
    compare.ask(DELETE, 2, "all", named(group_id))
    compare.judge("the log", *sides.each(lambda side: stored(side, group_id)))
