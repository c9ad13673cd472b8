"""Committed offsets, and groups that have nothing else, over restarts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyk.config.broker import BrokerConfig
from pyk.config.group import GroupConfig
from pyk.coordinator.assigned import RETRY_AFTER
from pyk.coordinator.group import Caller, Surroundings
from pyk.coordinator.group_coordinator import RECORD_TYPES
from pyk.coordinator.groups import DELETED_AT_ONCE, Groups
from pyk.coordinator.machine import Decision, Record, Ticket, TransactionEnd
from pyk.coordinator.offsets import fetched
from pyk.coordinator.topic_changes import NO_CHANGES, TopicChanges, topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage, Topic
from pyk.turns import at_once
from pyk.types import ZERO_UUID, Uuid
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
from pyk.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.prefixed import decode_key, decode_value, encode_key, encode_value

GROUP, TOPIC = "orders", "events"
TICKET = Ticket(1)
MINUTE = 60.0
DAY = 24 * 60 * MINUTE
MIDNIGHT_MS = 1_700_000_000_000
ANN, BOB = 1001, 1002


def id_of(short: bytes) -> Uuid:
    return Uuid(short.ljust(16, b"-"))


def image_of(topics: Mapping[str, bytes]) -> ClusterImage:
    """Topics and their ids, as short as they may be."""
    found = {name: Topic(name, id_of(short), (), 1) for name, short in topics.items()}
    names = {topic.topic_id: name for name, topic in found.items()}
    return ClusterImage(topics=found, names=names)


class Coordinator:
    """A machine and its log, as bytes."""

    def __init__(self, **config: int) -> None:
        self.config = BrokerConfig(**config)
        self.image = image_of({TOPIC: b"0"})
        self.log_is_full = False
        self.refuses: Callable[[Sequence[Record]], bool] = lambda records: False
        self.log: list[tuple[bytes, bytes | None, int | None] | TransactionEnd] = []
        """Keys, values, and whose transaction they belong to."""
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
        for entry in self.log:
            if isinstance(entry, TransactionEnd):
                self.groups.apply(Record(entry, None))
                continue
            key_data, data, producer_id = entry
            key = decode_key(RECORD_TYPES.keys, key_data)
            declared = RECORD_TYPES.values[type(key)]
            value = None if data is None else decode_value(declared, data)
            self.groups.apply(Record(key, value, producer_id=producer_id))
        for _ in self.groups.check_topics(self.image):
            pass
        self.groups.on_loaded(self.now)

    def commit(
        self,
        offsets: dict[int, int],
        group_id: str = GROUP,
        topic: str = TOPIC,
        version: int = 9,
        metadata: str = "",
        topic_id: Uuid = ZERO_UUID,
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
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)],
            **more,
        )
        caller = Caller(version, "client", "/127.0.0.1")
        return self._ask(lambda: self.groups.commit(request, caller, TICKET, self.now))

    def committed(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        request = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        found = self._ask(lambda: self.groups.fetch(request, TICKET, self.now))
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in at_once(fetched(found, None))
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
        return [group.group_id for group in at_once(self.groups.listed(ListGroupsRequest()))]

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.groups.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._perform(self.groups.expire(self.now))
        self.now = until

    def see(self, **topics: bytes) -> None:
        """The cluster has these topics now, with these ids."""
        before, self.image = self.image, image_of(topics)
        self.groups.on_image(self.image, topic_changes(before, self.image), self.now)
        self.pass_time(0)

    def _ask(self, decide: Callable[[], Decision]) -> Any:
        decision = decide()
        self._perform(decision)
        (reply,) = decision.replies
        return reply.response

    def _perform(self, decision: Decision) -> None:
        if decision.records and (self.log_is_full or self.refuses(decision.records)):
            assert decision.otherwise is not None
            decision = decision.otherwise(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        producer_id = None if decision.transaction is None else decision.transaction.producer_id
        for key, value, version, *_ in decision.records:
            data = None if value is None else encode_value(value, version)
            self.log.append((encode_key(key), data, producer_id))
        for record in decision.records:
            self.groups.apply(record._replace(producer_id=producer_id))

    def commit_in_transaction(
        self, offset: int, producer_id: int = ANN, group_id: str = GROUP, **more: Any
    ) -> Any:
        """Of partition 0."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id="copy",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
            **more,
        )
        caller = Caller(5, "client", "/127.0.0.1")
        return self._ask(
            lambda: self.groups.commit_in_transaction(request, caller, None, TICKET, self.now)
        )

    def end(self, producer_id: int = ANN, *, commit: bool) -> None:
        self.log.append(TransactionEnd(producer_id, commit))
        self.groups.apply(Record(self.log[-1], None))

    def stable(self, group_id: str = GROUP) -> int | None:
        """The offset of partition 0, or None while it is unstable."""
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
        found = self._ask(lambda: self.groups.fetch(request, TICKET, self.now, require_stable=True))
        [[partition]] = [each.partitions for each in at_once(fetched(found, [topic]))]
        if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return None
        return int(partition.committed_offset)


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


def test_an_old_client_may_keep_its_offsets_for_ever(it: Coordinator) -> None:
    it.commit({0: 5}, retention_time_ms=2**63 - 1, version=4)
    it.pass_time(8 * DAY)
    it.restart()
    assert it.committed() == {(TOPIC, 0): 5}


def test_many_groups_expire_each_in_a_batch_of_its_own(it: Coordinator) -> None:
    for number in range(50):
        it.commit({0: 5, 1: 6}, group_id=f"g{number}")
    it.pass_time(8 * DAY)
    assert it.listed == []


def test_offsets_that_a_full_log_keeps_alive_go_when_there_is_room(it: Coordinator) -> None:
    for number in range(3):
        it.commit({0: 5}, group_id=f"g{number}")
    it.log_is_full = True
    it.pass_time(8 * DAY)
    assert len(it.listed) == 3
    it.log_is_full = False
    it.pass_time(RETRY_AFTER)
    assert it.listed == []


@pytest.mark.parametrize(("group_id", "limit"), [(GROUP, 1000), ("g" * 30_000, 10)])
def test_offsets_that_are_too_old_are_deleted_in_batches_that_the_log_takes(
    it: Coordinator, group_id: str, limit: int
) -> None:
    it.commit(dict.fromkeys(range(2 * limit + 5), 5), group_id=group_id)
    it.refuses = lambda records: len(records) > limit
    it.pass_time(8 * DAY)
    assert it.listed == []


def test_a_group_whose_old_offsets_the_log_keeps_keeps_no_others(it: Coordinator) -> None:
    names = [f"g{number}" for number in range(5)]
    for name in names:
        it.commit({0: 5}, group_id=name)
    it.refuses = lambda records: any(getattr(r.key, "group", "") == "g2" for r in records)
    it.pass_time(8 * DAY)
    assert it.listed == ["g2"]
    it.refuses = lambda records: False
    it.pass_time(RETRY_AFTER)
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


def test_a_log_that_is_full_keeps_no_offset_of_a_deleted_topic_alive(it: Coordinator) -> None:
    it.see(events=b"1", other=b"2")
    it.commit({0: 5, 1: 6}, topic_id=id_of(b"1"))
    it.commit({0: 7}, topic="other", topic_id=id_of(b"2"))
    it.log_is_full = True
    it.see(other=b"2")
    assert it.committed() == {("other", 0): 7}
    it.see(events=b"3", other=b"2")
    assert it.committed() == {("other", 0): 7}
    it.log_is_full = False
    it.commit({1: 8}, topic_id=id_of(b"3"))
    before = len(it.log)
    it.pass_time(RETRY_AFTER)
    assert len(it.log) == before + 1, "one tombstone, since the other partition has a new offset"
    for _ in range(2):
        assert it.committed() == {("other", 0): 7, (TOPIC, 1): 8}
        it.restart()


def begin_in_a_topic_made_anew(it: Coordinator) -> None:
    """A commit in a transaction, while the log refuses tombstones for the topic before."""
    it.see(events=b"1")
    it.commit({0: 5})
    it.log_is_full = True
    it.see()
    it.see(events=b"3")
    it.log_is_full = False
    it.commit_in_transaction(42)


@pytest.mark.parametrize("ends_first", [False, True])
def test_a_commit_in_a_transaction_outlives_the_offsets_of_the_topic_before(
    it: Coordinator, ends_first: bool
) -> None:
    begin_in_a_topic_made_anew(it)
    if not ends_first:
        it.pass_time(RETRY_AFTER)
    it.end(commit=True)
    it.pass_time(RETRY_AFTER)
    assert not it.groups.offsets.has_abandoned
    for _ in range(2):
        assert it.committed() == {(TOPIC, 0): 42}
        it.restart()


def test_a_transaction_that_is_aborted_brings_no_offset_of_the_topic_before_back(
    it: Coordinator,
) -> None:
    begin_in_a_topic_made_anew(it)
    it.pass_time(RETRY_AFTER)
    it.end(commit=False)
    it.pass_time(RETRY_AFTER)
    assert not it.groups.offsets.has_abandoned
    for _ in range(2):
        assert it.committed() == {}
        it.restart()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_producer_that_committed_for_the_topic_before_takes_nothing_from_another(
    it: Coordinator, is_restarted: bool
) -> None:
    it.see(events=b"1")
    it.commit_in_transaction(5)
    it.image = image_of({"events": b"3"})
    it.groups.on_image(it.image, NO_CHANGES, it.now)
    it.commit_in_transaction(42, BOB)
    if is_restarted:
        it.restart()
    else:
        gone = TopicChanges(frozenset({TOPIC}), {id_of(b"1"): TOPIC}, has_created=True)
        it.groups.on_image(it.image, gone, it.now)
    it.pass_time(RETRY_AFTER)
    it.end(BOB, commit=True)
    it.end(ANN, commit=True)
    it.pass_time(RETRY_AFTER)
    for _ in range(2):
        assert it.committed() == {(TOPIC, 0): 42}
        it.restart()


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_offsets_of_a_topic_that_went_while_nobody_looked_go(
    it: Coordinator, is_made_anew: bool
) -> None:
    it.see(events=b"1", other=b"2")
    it.commit({0: 5, 1: 6}, topic_id=id_of(b"1"))
    it.commit_in_transaction(7)
    it.commit({0: 6}, topic="other", topic_id=id_of(b"2"))
    it.image = image_of({"events": b"3", "other": b"2"} if is_made_anew else {"other": b"2"})
    it.restart()
    assert it.committed() == {("other", 0): 6}
    it.end(commit=True)
    assert it.committed() == {("other", 0): 6}
    it.pass_time(0)
    assert (
        len([each for each in it.log if not isinstance(each, TransactionEnd) and each[1] is None])
        == 2
    )
    it.restart()
    assert it.committed() == {("other", 0): 6}


def test_offsets_that_do_not_say_of_which_topic_are_of_the_one_that_there_is(
    it: Coordinator,
) -> None:
    it.see(events=b"1")
    it.commit({0: 5})
    it.image = image_of({"events": b"3"})
    it.restart()
    assert it.committed() == {(TOPIC, 0): 5}


def test_a_topic_that_is_asked_for_by_its_id_has_no_offsets_of_another(it: Coordinator) -> None:
    it.see(events=b"1")
    it.commit({0: 5}, topic_id=id_of(b"1"))
    for short, expected in ((b"1", 5), (b"3", -1)):
        wanted = OffsetFetchRequestTopics(name=TOPIC, topic_id=id_of(short), partition_indexes=[0])
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
        (reply,) = it.groups.fetch(request, TICKET, it.now).replies
        [topic] = at_once(fetched(reply.response, [wanted]))
        assert topic.partitions[0].committed_offset == expected


def test_many_offsets_are_told_in_turns_as_they_were_at_one_moment(it: Coordinator) -> None:
    it.commit(dict.fromkeys(range(10_000), 5))
    request = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (reply,) = it.groups.fetch(request, TICKET, it.now).replies
    work = fetched(reply.response, None)
    for _ in range(3):
        next(work)
        it.commit({9_999: 6})
        it.delete_offsets(9_998)
    [topic] = at_once(work)
    assert {each.committed_offset for each in topic.partitions} == {5}
    assert len(topic.partitions) == 10_000


def test_of_many_offsets_those_are_copied_that_are_asked_for(it: Coordinator) -> None:
    it.commit(dict.fromkeys(range(100), 5))
    it.commit({0: 5}, topic="other")
    it.commit_in_transaction(6)
    for numbers, copied in (([], 0), ([7, 8, 7, 500], 2), ([*range(200)], 100)):
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=numbers)
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        (reply,) = it.groups.fetch(request, TICKET, it.now, require_stable=True).replies
        assert {t: len(p) for t, p in reply.response.committed.items()} == {TOPIC: copied}
        assert len(reply.response.unstable) == (0 in numbers)
    nothing = OffsetFetchRequestGroup(group_id=GROUP, topics=[])
    (reply,) = it.groups.fetch(nothing, TICKET, it.now).replies
    assert reply.response.committed == {}


def test_many_offsets_of_a_deleted_topic_go_in_many_batches(it: Coordinator) -> None:
    it.see(events=b"1")
    for number in range(3):
        it.commit(dict.fromkeys(range(1000), 5), group_id=f"g{number}", topic_id=id_of(b"1"))
    it.image = image_of({})
    it.restart()
    sizes = []
    while (decision := it.groups.expire(it.now)).records:
        sizes.append(len(decision.records))
        it._perform(decision)
    assert sum(sizes) == 3000
    assert max(sizes) <= DELETED_AT_ONCE
    assert not it.groups.offsets.has_abandoned


def test_groups_that_do_not_read_a_topic_are_not_looked_at_when_it_goes(it: Coordinator) -> None:
    it.see(events=b"1", other=b"2")
    for number in range(1000):
        it.commit({0: 5}, group_id=f"g{number}", topic="other", topic_id=id_of(b"2"))
    it.commit({0: 5}, topic_id=id_of(b"1"))
    it.commit_in_transaction(6, group_id="waits")
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        it.groups.offsets.abandon({TOPIC}, image_of({"other": b"2"}))
    finally:
        sys.setprofile(before)
    assert calls < 100
    assert it.committed() == {}
    assert not it.groups.offsets.pending("waits")
    assert it.committed("g7") == {("other", 0): 5}


GROUPS = st.sampled_from(["a", "b"])
PARTITIONS = st.integers(0, 2)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_committed_in_a_transaction_counts_with_it(
    commit: bool, is_restarted: bool
) -> None:
    it = Coordinator()
    it.commit({0: 3})
    it.commit_in_transaction(5)
    if is_restarted:
        it.restart()
    assert it.stable() is None
    assert it.committed() == {(TOPIC, 0): 3}
    it.end(commit=commit)
    assert it.stable() == (5 if commit else 3)
    it.restart()
    assert it.stable() == (5 if commit else 3)


def test_the_last_commit_of_a_transaction_counts() -> None:
    it = Coordinator()
    it.commit_in_transaction(5)
    it.commit_in_transaction(6)
    it.end(commit=True)
    assert it.stable() == 6


def test_the_later_commit_counts_whichever_transaction_ends_first() -> None:
    for order in ((ANN, BOB), (BOB, ANN)):
        it = Coordinator()
        it.commit_in_transaction(5, ANN)
        it.commit_in_transaction(7, BOB)
        for producer_id in order:
            assert it.stable() is None
            it.end(producer_id, commit=True)
        assert it.stable() == 7
        it.restart()
        assert it.stable() == 7


def test_a_commit_outside_of_a_transaction_counts_over_one_before_it() -> None:
    it = Coordinator()
    it.commit_in_transaction(5)
    it.commit({0: 3})
    assert it.stable() is None
    it.end(commit=True)
    assert it.stable() == 3


def test_a_commit_in_a_transaction_makes_a_group_that_stays_if_it_is_aborted() -> None:
    it = Coordinator()
    it.commit_in_transaction(5)
    assert it.listed == [GROUP]
    it.end(commit=False)
    assert it.listed == [GROUP]
    it.pass_time(8 * 24 * 3600)
    assert it.listed == []


def test_a_group_with_pending_offsets_is_not_forgotten() -> None:
    it = Coordinator()
    it.commit({0: 3})
    it.commit_in_transaction(5)
    it.pass_time(8 * 24 * 3600)
    assert it.listed == [GROUP]
    assert it.committed() == {(TOPIC, 0): 3}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("whole_group", [True, False])
def test_what_is_deleted_while_it_is_pending_stays_deleted(whole_group: bool, commit: bool) -> None:
    it = Coordinator()
    it.commit_in_transaction(5)
    if whole_group:
        it.delete()
    else:
        it.delete_offsets(0)
    assert it.stable() == -1
    it.end(commit=commit)
    assert it.stable() == -1
    it.restart()
    assert it.stable() == -1


def test_pending_offsets_of_a_deleted_topic_go() -> None:
    it = Coordinator()
    it.see(**{TOPIC: b"the topic's uuid"})
    it.commit_in_transaction(5)
    it.see()
    it.end(commit=True)
    assert it.stable() == -1


def test_members_of_generations_that_are_not_there_commit_nothing_in_transactions() -> None:
    it = Coordinator()
    with pytest.raises(KafkaError) as refusal:
        it.commit_in_transaction(5, generation_id=1)
    assert refusal.value.code is ErrorCode.ILLEGAL_GENERATION
    it.commit({0: 3})
    with pytest.raises(KafkaError) as refusal:
        it.commit_in_transaction(5, member_id="me", generation_id=1)
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


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
