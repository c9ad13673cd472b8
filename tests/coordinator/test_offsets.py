"""Committed offsets, and groups that have nothing else, over restarts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyk.config.broker import BrokerConfig
from pyk.config.group import GroupConfig
from pyk.coordinator.group import Caller, Surroundings
from pyk.coordinator.group_coordinator import RECORD_TYPES
from pyk.coordinator.groups import Groups
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage, Topic
from pyk.types import Uuid
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
from pyk.wire.messages.offset_fetch import OffsetFetchRequestGroup
from pyk.wire.prefixed import decode_key, decode_value, encode_key, encode_value

GROUP, TOPIC = "orders", "events"
TICKET = Ticket(1)
MINUTE = 60.0
DAY = 24 * 60 * MINUTE
MIDNIGHT_MS = 1_700_000_000_000


class Coordinator:
    """A machine and its log, as bytes."""

    def __init__(self, **config: int) -> None:
        self.config = BrokerConfig(**config)
        self.image = ClusterImage()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now = 1000.0
        self.restart()

    def restart(self) -> None:
        surroundings = Surroundings(
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig(),
            rng=Random(1),
            now_ms=lambda: MIDNIGHT_MS + int(self.now * 1000),
            image=self.image,
        )
        self.groups = Groups(surroundings)
        for key_data, data in self.log:
            key = decode_key(RECORD_TYPES.keys, key_data)
            declared = RECORD_TYPES.values[type(key)]
            value = None if data is None else decode_value(declared, data)
            self.groups.apply(Record(key, value))
        self.groups.on_loaded(self.now)

    def commit(
        self,
        offsets: dict[int, int],
        group_id: str = GROUP,
        topic: str = TOPIC,
        version: int = 9,
        metadata: str = "",
        **more: Any,
    ) -> Any:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=metadata
            )
            for number, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
            **more,
        )
        caller = Caller(version, "client", "/127.0.0.1")
        return self._ask(lambda: self.groups.commit(request, caller, TICKET, self.now))

    def committed(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        request = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        response = self._ask(lambda: self.groups.fetch(request, TICKET, self.now))
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in response.topics
            for each in topic.partitions
        }

    def delete_offsets(self, *partitions: int, group_id: str = GROUP) -> Any:
        asked = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=asked)]
        )
        return self._ask(lambda: self.groups.delete_offsets(request, TICKET, self.now))

    def delete(self, group_id: str = GROUP) -> Any:
        return self._ask(lambda: self.groups.delete(group_id, TICKET, self.now))

    @property
    def listed(self) -> list[str]:
        return [group.group_id for group in self.groups.listed(ListGroupsRequest())]

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.groups.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._perform(self.groups.expire(self.now))
        self.now = until

    def see(self, **topics: bytes) -> None:
        """The cluster has these topics now, with these ids."""
        found = {name: Topic(name, Uuid(topic_id), (), 1) for name, topic_id in topics.items()}
        self.image = ClusterImage(topics=found)
        self._perform(self.groups.on_image(self.image, self.now))

    def _ask(self, decide: Callable[[], Decision]) -> Any:
        decision = decide()
        self._perform(decision)
        (reply,) = decision.replies
        return reply.response

    def _perform(self, decision: Decision) -> None:
        for key, value, version, _ in decision.records:
            data = None if value is None else encode_value(value, version)
            self.log.append((encode_key(key), data))
        for record in decision.records:
            self.groups.apply(record)


@pytest.fixture
def it() -> Coordinator:
    return Coordinator()


def test_the_last_commit_counts(it: Coordinator) -> None:
    it.commit({0: 5, 1: 7})
    it.commit({0: 9})
    assert it.committed() == {(TOPIC, 0): 9, (TOPIC, 1): 7}


def test_a_group_that_never_committed_has_no_offsets_and_is_no_error(it: Coordinator) -> None:
    assert it.committed() == {}


def test_a_first_commit_makes_a_group(it: Coordinator) -> None:
    it.commit({0: 5})
    assert it.listed == [GROUP]


def test_a_commit_of_a_generation_needs_a_group(it: Coordinator) -> None:
    for version, code in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
        with pytest.raises(KafkaError) as refusal:
            it.commit({0: 5}, version=version, generation_id_or_member_epoch=1)
        assert refusal.value.code is code
    assert it.listed == []


def test_a_note_that_is_too_long_is_refused_on_its_own(it: Coordinator) -> None:
    response = it.commit({0: 5}, metadata="x" * 4097)
    assert response.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert it.committed() == {}


def test_deleted_offsets_are_gone_after_a_restart_too(it: Coordinator) -> None:
    it.commit({0: 5, 1: 7})
    it.delete_offsets(0, 3)
    it.restart()
    assert it.committed() == {(TOPIC, 1): 7}


def test_a_deleted_group_is_gone_with_its_offsets(it: Coordinator) -> None:
    it.commit({0: 5})
    it.delete()
    for _ in range(2):
        assert it.committed() == {}
        assert it.listed == []
        it.restart()
    with pytest.raises(KafkaError) as refusal:
        it.delete()
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_expire_a_week_after_they_were_committed(it: Coordinator) -> None:
    it.commit({0: 5})
    it.pass_time(DAY)
    it.commit({1: 7})
    it.pass_time(6 * DAY - MINUTE)
    assert it.committed() == {(TOPIC, 0): 5, (TOPIC, 1): 7}
    it.pass_time(12 * MINUTE)
    assert it.committed() == {(TOPIC, 1): 7}
    assert it.listed == [GROUP]
    it.pass_time(DAY)
    assert it.listed == []
    it.restart()
    assert it.listed == []


def test_a_restart_does_not_make_offsets_young(it: Coordinator) -> None:
    it.commit({0: 5})
    it.pass_time(6 * DAY)
    it.restart()
    it.pass_time(DAY + 11 * MINUTE)
    assert it.committed() == {}


def test_an_old_client_may_say_when_its_offsets_expire(it: Coordinator) -> None:
    it.commit({0: 5}, retention_time_ms=60_000, version=4)
    it.commit({1: 5})
    it.pass_time(11 * MINUTE)
    assert it.committed() == {(TOPIC, 1): 5}


def test_many_groups_expire_each_in_a_batch_of_its_own(it: Coordinator) -> None:
    for number in range(50):
        it.commit({0: 5, 1: 6}, group_id=f"g{number}")
    it.pass_time(8 * DAY)
    assert it.listed == []


def test_offsets_of_a_deleted_topic_go(it: Coordinator) -> None:
    it.see(events=b"1", other=b"2")
    it.commit({0: 5})
    it.commit({0: 6}, topic="other")
    it.see(other=b"2")
    assert it.committed() == {("other", 0): 6}
    it.restart()
    assert it.committed() == {("other", 0): 6}


def test_offsets_of_a_topic_made_anew_go(it: Coordinator) -> None:
    it.see(events=b"1")
    it.commit({0: 5})
    it.see(events=b"3")
    assert it.committed() == {}


GROUPS = st.sampled_from(["a", "b"])
PARTITIONS = st.integers(0, 2)


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens, what is committed is what was committed last and not deleted since."""

    def __init__(self) -> None:
        super().__init__()
        self.it = Coordinator()
        self.model: dict[str, dict[tuple[str, int], int]] = {"a": {}, "b": {}}

    @rule(group_id=GROUPS, offsets=st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1))
    def commit(self, group_id: str, offsets: dict[int, int]) -> None:
        self.it.commit(offsets, group_id)
        self.model[group_id] |= {(TOPIC, number): offset for number, offset in offsets.items()}

    @rule(group_id=GROUPS, partition=PARTITIONS)
    def delete_offset(self, group_id: str, partition: int) -> None:
        if group_id in self.it.listed:
            self.it.delete_offsets(partition, group_id=group_id)
            self.model[group_id].pop((TOPIC, partition), None)

    @rule(group_id=GROUPS)
    def delete(self, group_id: str) -> None:
        if group_id in self.it.listed:
            self.it.delete(group_id)
            self.model[group_id] = {}

    @rule()
    def restart(self) -> None:
        self.it.restart()

    @rule(hours=st.integers(0, 24))
    def wait(self, hours: int) -> None:
        """Less than it takes to expire, all in all."""
        self.it.pass_time(hours * 60)

    @invariant()
    def offsets_are_what_was_committed_last(self) -> None:
        for group_id, expected in self.model.items():
            assert self.it.committed(group_id) == expected


TestAnyHistory = AnyHistory.TestCase
