"""The shell around a machine, here a tally of words that everybody may add to."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isawaitable
from typing import Any

import pytest
import trio
import trio.testing

from pyk.coordinator.journal import Journal, JournalOptions, RecordTypes
from pyk.coordinator.machine import (
    Decision,
    InTransaction,
    Record,
    Reply,
    Ticket,
    TransactionEnd,
)
from pyk.coordinator.shard import Shard
from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.guards import Guard
from pyk.metadata.image import ClusterImage
from pyk.replication.partition import Marker, Partition
from pyk.wire.compression import Compression
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue
from pyk.wire.prefixed import ControlType, by_record_type
from pyk.wire.records import RECORDS_BYTES_MAX, build_batch
from pyk.wire.records import Record as StoredRecord
from tests.log.test_log import ANN, marker
from tests.replication.test_partition import elected_again, led

TYPES = RecordTypes(by_record_type(OffsetCommitKey), {OffsetCommitKey: OffsetCommitValue})
NOW_MS = 1_000
TIMEOUT = 5.0
OPTIONS = JournalOptions(Compression.NONE, TIMEOUT)


def word(text: str, note: str = "") -> Record:
    key = OffsetCommitKey(group=text, topic="", partition=0)
    value = OffsetCommitValue(offset=0, metadata=note, commit_timestamp=0)
    return Record(key, value, version=3)


HUGE = [word(f"word {number}", note="x" * 30_000) for number in range(40)]
"""More than fits a batch."""


class Tally:
    """A machine. It can make callers wait for a word, and drop words when their time has come."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.pending: dict[int, list[Record]] = {}
        self.waiting: dict[Ticket, str] = {}
        self.due: float | None = None
        self.due_records: list[Record] = []
        """What is to be written when something is due, if not that the oldest word is gone."""
        self.loaded_at: float | None = None

    def apply(self, record: Record) -> None:
        if isinstance(record.key, TransactionEnd):
            for each in self.pending.pop(record.key.producer_id, []):
                if record.key.is_commit:
                    self.apply(each._replace(producer_id=None))
            return
        if record.producer_id is not None:
            self.pending.setdefault(record.producer_id, []).append(record)
            return
        text = record.key.group
        self.words = [w for w in self.words if w != text]
        if record.value is not None:
            self.words.append(text)

    def on_loaded(self, now: float) -> None:
        self.loaded_at = now

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        return iter(())

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        pass

    def deadline(self) -> float | None:
        return self.due

    def expire(self, now: float) -> Decision:
        self.due = None
        oldest = self.words[0]
        gone = Record(OffsetCommitKey(group=oldest, topic="", partition=0), None)
        return Decision(self.due_records or [gone])

    def add(self, ticket: Ticket, *records: Record) -> Decision:
        texts = [record.key.group for record in records]
        waited = [Reply(t, "here") for t, text in self.waiting.items() if text in texts]
        return Decision(records, [Reply(ticket, "added"), *waited])

    def wait_for(self, text: str, ticket: Ticket) -> Decision:
        self.waiting[ticket] = text
        return Decision()

    def see(self, ticket: Ticket) -> Decision:
        return Decision(replies=[Reply(ticket, list(self.words))])


def opened(partition: Partition | None = None) -> Shard[Tally]:
    shard = unloaded(partition or led())
    shard.begin()
    return shard


def unloaded(partition: Partition) -> Shard[Tally]:
    journal = Journal(partition, TYPES, OPTIONS)
    return Shard(Tally(), journal, lambda: NOW_MS)


def add(shard: Shard[Tally], *records: Record) -> Any:
    return shard.execute(lambda tally, ticket, now: tally.add(ticket, *records))


def see(shard: Shard[Tally]) -> Any:
    return shard.execute(lambda tally, ticket, now: tally.see(ticket))


async def test_what_is_decided_and_committed_is_answered_at_once() -> None:
    shard = opened()
    assert add(shard, word("one"), word("two")) == "added"
    assert see(shard) == ["one", "two"]


async def test_a_decision_may_answer_those_who_wait() -> None:
    shard = opened()
    waiting = shard.execute(lambda tally, ticket, now: tally.wait_for("two", ticket))
    add(shard, word("one"))
    add(shard, word("two"))
    assert await waiting == "here"


async def test_who_waits_is_answered_while_waiting() -> None:
    shard = opened()
    answers = []

    async def wait() -> None:
        answers.append(
            await shard.execute(lambda tally, ticket, now: tally.wait_for("one", ticket))
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        add(shard, word("one"))
    assert answers == ["here"]


async def test_no_answer_leaves_before_what_it_has_seen_is_committed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shard = opened(led(in_sync=frozenset({1, 2})))
    for answer in (add(shard, word("one")), see(shard)):
        assert isawaitable(answer)
        began = trio.current_time()
        with pytest.raises(KafkaError) as refusal:
            await answer
        assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() == began + TIMEOUT


async def test_what_the_log_refuses_is_not_applied_and_its_caller_hears_why() -> None:
    shard = opened()
    with pytest.raises(KafkaError) as refusal:
        add(shard, *HUGE)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert see(shard) == []


async def test_a_machine_may_say_what_happens_when_the_log_refuses() -> None:
    shard = opened()

    def decide(tally: Tally, ticket: Ticket, now: float) -> Decision:
        def otherwise(refusal: KafkaError) -> Decision:
            return Decision(replies=[Reply(ticket, refusal.code)])

        return Decision(HUGE, [], otherwise)

    assert shard.execute(decide) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert see(shard) == []


async def test_what_nobody_asked_for_is_refused_to_whoever_carries_it_out() -> None:
    shard = opened()
    with pytest.raises(KafkaError) as refusal:
        shard.perform(lambda tally, now: Decision(HUGE))
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    add(shard, word("one"))
    shard.machine.due_records = HUGE
    shard.machine.due = trio.current_time()
    with pytest.raises(KafkaError):
        shard.expire(trio.current_time())
    assert see(shard) == ["one"]


async def test_a_refusal_that_somebody_hears_is_told_to_nobody_else() -> None:
    shard = opened()
    waiting = shard.execute(lambda tally, ticket, now: tally.wait_for("one", ticket))

    def decide(tally: Tally, now: float) -> Decision:
        return Decision(HUGE, [Reply(ticket, "here") for ticket in tally.waiting])

    shard.perform(decide)
    with pytest.raises(KafkaError):
        await waiting


async def test_what_no_record_can_say_is_refused_as_by_the_log() -> None:
    shard = opened()
    key = OffsetCommitKey(group="one", topic="", partition=0)
    value = OffsetCommitValue(offset=2**63, metadata="", commit_timestamp=0)
    waiting = shard.execute(lambda tally, ticket, now: tally.wait_for("one", ticket))

    def decide(tally: Tally, ticket: Ticket, now: float) -> Decision:
        replies = [Reply(each, "one is there") for each in (ticket, *tally.waiting)]

        def otherwise(refusal: KafkaError) -> Decision:
            return Decision(replies=[Reply(each.ticket, refusal.code) for each in replies])

        return Decision([Record(key, value, version=3)], replies, otherwise)

    assert shard.execute(decide) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert await waiting is ErrorCode.UNKNOWN_SERVER_ERROR
    assert see(shard) == []


async def test_a_refusal_leaves_nobody_waiting() -> None:
    shard = opened()

    def refuse(tally: Tally, ticket: Ticket, now: float) -> Decision:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    with pytest.raises(KafkaError):
        shard.execute(refuse)
    assert shard.waiting == 0


async def test_a_bug_in_a_decision_leaves_nobody_waiting() -> None:
    shard = opened()

    def fail(tally: Tally, ticket: Ticket, now: float) -> Decision:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shard.execute(fail)
    assert shard.waiting == 0


async def test_who_waits_when_the_shard_is_dropped_is_sent_elsewhere() -> None:
    shard = opened()
    waiting = shard.execute(lambda tally, ticket, now: tally.wait_for("two", ticket))
    shard.drop()
    with pytest.raises(KafkaError) as refusal:
        await waiting
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


async def test_what_is_due_is_decided_once() -> None:
    shard = opened()
    add(shard, word("one"), word("two"))
    shard.machine.due = trio.current_time() + 100
    assert not shard.expire(trio.current_time())
    shard.machine.due = trio.current_time()
    assert shard.expire(trio.current_time())
    assert not shard.expire(trio.current_time())
    assert see(shard) == ["two"]


async def test_a_shard_is_loaded_from_its_log_before_it_serves() -> None:
    partition = led()
    before = opened(partition)
    for text in ("one", "two", "three"):
        add(before, word(text))
    before.machine.due = trio.current_time()
    before.expire(trio.current_time())
    after = unloaded(partition)
    with pytest.raises(KafkaError) as refusal:
        see(after)
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await after.load()
    assert see(after) == ["two", "three"]
    assert after.machine.loaded_at is not None


async def test_a_shard_that_is_dropped_while_it_loads_never_serves() -> None:
    partition = led()
    add(opened(partition), word("one"))
    shard = unloaded(partition)
    shard.drop()
    await shard.load()
    with pytest.raises(KafkaError) as refusal:
        see(shard)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


OUTCOMES = pytest.mark.parametrize(
    ("outcome", "found"), [(ControlType.COMMIT, ["kept"]), (ControlType.ABORT, [])]
)


def end_of(outcome: ControlType, epoch: int = 0) -> Marker:
    return Marker(ANN, epoch, outcome, coordinator_epoch=0, transaction_version=0)


def add_in_transaction(shard: Shard[Tally], guard: Guard | None, *records: Record) -> Any:
    transaction = InTransaction(ANN, 0, guard)
    return shard.execute(
        lambda tally, ticket, now: tally.add(ticket, *records)._replace(transaction=transaction)
    )


@OUTCOMES
async def test_what_belongs_to_a_transaction_waits_for_its_end(
    outcome: ControlType, found: list[str]
) -> None:
    shard = opened()
    assert add_in_transaction(shard, shard.journal.guard_for(ANN, 0), word("kept")) == "added"
    assert see(shard) == []
    shard.end_transaction(end_of(outcome))
    assert see(shard) == found


@OUTCOMES
async def test_what_waits_for_the_end_of_a_transaction_survives_a_restart(
    outcome: ControlType, found: list[str]
) -> None:
    partition = led()
    before = opened(partition)
    add_in_transaction(before, before.journal.guard_for(ANN, 0), word("kept"))
    shard = unloaded(partition)
    await shard.load()
    assert see(shard) == []
    shard.end_transaction(end_of(outcome))
    assert see(shard) == found


async def test_what_was_verified_before_the_transaction_ended_is_refused_after_it() -> None:
    shard = opened()
    guard = shard.journal.guard_for(ANN, 0)
    shard.end_transaction(end_of(ControlType.ABORT))
    with pytest.raises(KafkaError) as refusal:
        await add_in_transaction(shard, guard, word("late"))
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE
    assert see(shard) == []


async def test_a_shard_that_is_not_loaded_takes_no_end_of_a_transaction() -> None:
    with pytest.raises(KafkaError) as refusal:
        unloaded(led()).end_transaction(end_of(ControlType.COMMIT))
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@OUTCOMES
async def test_what_belongs_to_a_transaction_is_loaded_if_that_is_committed(
    outcome: ControlType, found: list[str]
) -> None:
    partition = led()
    journal = Journal(partition, TYPES, OPTIONS)
    stored = journal.encoded([word("kept")], NOW_MS)
    data = build_batch(
        stored, producer_id=ANN, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    partition.log.append(bytearray(data), leader_epoch=4, now_ms=NOW_MS)
    partition.log.append(marker(ANN, outcome), leader_epoch=4, now_ms=NOW_MS)
    partition.log.advance_high_watermark(partition.log.end_offset)
    shard = unloaded(partition)
    await shard.load()
    assert see(shard) == found


async def test_records_that_cannot_be_read_are_passed_over_and_counted() -> None:
    partition = led()
    good = Journal(partition, TYPES, OPTIONS).encoded([word("good")], NOW_MS)
    strange = [
        StoredRecord(0, NOW_MS, None, b""),
        StoredRecord(1, NOW_MS, b"", b""),
        StoredRecord(2, NOW_MS, b"\x00\x63", b""),
        StoredRecord(3, NOW_MS, good[0].key, b"\x00\x63"),
        StoredRecord(4, NOW_MS, good[0].key, good[0].value),
    ]
    partition.log.append(bytearray(build_batch(strange)), leader_epoch=4, now_ms=NOW_MS)
    partition.log.advance_high_watermark(partition.log.end_offset)
    shard = unloaded(partition)
    await shard.load()
    assert see(shard) == ["good"]
    assert shard.unreadable == 4


@pytest.mark.loop_limit(1.0, "nobody writes batches of that size any more")
async def test_a_compressed_batch_is_loaded_however_far_it_inflates() -> None:
    partition = led()
    long = word("long", note="x" * 30_000)
    words = [long] * (RECORDS_BYTES_MAX // 30_000) + [word("last")]
    stored = Journal(partition, TYPES, OPTIONS).encoded(words, NOW_MS)
    data = build_batch(stored, compression=Compression.GZIP)
    partition.log.append(bytearray(data), leader_epoch=4, now_ms=NOW_MS)
    partition.log.advance_high_watermark(partition.log.end_offset)
    shard = unloaded(partition)
    await shard.load()
    assert see(shard) == ["long", "last"]


async def test_a_batch_that_would_inflate_too_far_for_its_readers_is_refused() -> None:
    journal = Journal(led(), TYPES, JournalOptions(Compression.GZIP, TIMEOUT))
    shard = Shard(Tally(), journal, lambda: NOW_MS)
    shard.begin()
    long = word("long", note="x" * 30_000)
    with pytest.raises(KafkaError) as refusal:
        add(shard, *[long] * (1 + RECORDS_BYTES_MAX // 30_000))
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert add(shard, word("short")) == "added"
    assert see(shard) == ["short"]


async def test_a_log_longer_than_a_read_is_loaded_whole() -> None:
    partition = led()
    partition.log.config = LogConfig(segment_bytes=2_000_000)
    shard = opened(partition)
    for each in HUGE:
        add(shard, each)
    again = unloaded(partition)
    await again.load()
    assert see(again) == [f"word {number}" for number in range(len(HUGE))]


# Leader epochs

IN_SYNC = frozenset({1, 2})
NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")


async def test_what_is_not_committed_when_the_role_is_lost_is_not_answered() -> None:
    partition = led(IN_SYNC)
    shard = opened(partition)
    answer = add(shard, word("one"))
    heard: list[ErrorCode] = []

    async def wait() -> None:
        with pytest.raises(KafkaError) as refusal:
            await answer
        heard.append(refusal.value.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        partition.resign(NOT_LEADER)
        # In the meantime the log of another leader has become as long.
        partition.log.advance_high_watermark(partition.log.end_offset)
    assert heard == [ErrorCode.NOT_COORDINATOR]


async def test_a_shard_writes_in_the_epoch_of_its_election_only() -> None:
    partition = led()
    shard = opened(partition)
    add(shard, word("one"))
    partition.resign(NOT_LEADER)
    elected_again(partition, epoch=6, in_sync=frozenset({1}))
    with pytest.raises(KafkaError) as refusal:
        add(shard, word("two"))
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError) as refusal:
        shard.end_transaction(end_of(ControlType.COMMIT))
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.end_offset == 1


async def test_who_waits_for_a_commit_is_sent_away_when_the_shard_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shard, began = opened(led(IN_SYNC)), trio.current_time()
    heard: list[ErrorCode] = []

    async def wait(answer: Any) -> None:
        with pytest.raises(KafkaError) as refusal:
            await answer
        heard.append(refusal.value.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, add(shard, word("one")))
        late = add(shard, word("two"))
        await trio.testing.wait_all_tasks_blocked()
        shard.drop()
        nursery.start_soon(wait, late)
    assert heard == [ErrorCode.NOT_COORDINATOR] * 2
    assert trio.current_time() == began


async def test_a_new_leader_loads_what_it_does_not_know_to_be_committed() -> None:
    before = led()
    add(opened(before), word("one"), word("two"))
    piece = before.log.read(0, 1000, 2)
    assert piece is not None
    partition = led(IN_SYNC)
    data = piece.records.file.read(piece.records.position, piece.records.size)  # type: ignore[attr-defined]
    partition.log.append_replicated(data, NOW_MS)
    elected_again(partition, epoch=5, in_sync=IN_SYNC)
    shard = unloaded(partition)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shard.load)
        await trio.testing.wait_all_tasks_blocked()
        assert shard.machine.words == ["one", "two"]
        with pytest.raises(KafkaError) as refusal:
            see(shard)
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        partition.change_in_sync(frozenset({1}))
    assert see(shard) == ["one", "two"]


async def test_a_shard_that_is_not_committed_when_the_role_is_lost_never_serves() -> None:
    partition = led(IN_SYNC)
    add(opened(partition), word("one")).close()
    shard = unloaded(partition)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shard.load)
        await trio.testing.wait_all_tasks_blocked()
        partition.resign(NOT_LEADER)
    shard.drop()
    assert shard.machine.loaded_at is None
    with pytest.raises(KafkaError) as refusal:
        see(shard)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
