"""What a log knows of its producers: what it refuses, what it repeats, and what survives."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pyk.errors import ErrorCode, KafkaError
from pyk.log.guards import Guard
from pyk.log.producers import DamagedSnapshot, Origin, Producers
from pyk.log.snapshots import decode_snapshot, encode_snapshot
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader, TimestampType, encode_attributes
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType

LAST_SEQUENCE = 2**31 - 1
LAST_EPOCH = 2**15 - 1
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
CLIENT, COORDINATOR, REPLICATION = Origin.CLIENT, Origin.COORDINATOR, Origin.REPLICATION
ANN, BOB = 1001, 1002
COORDINATOR_EPOCH = 5
STEPS = ("data", "transactional", "transactional", "commit", "abort", "bump", "repeat", "gap")
TWO = b"\0\0\0\2"
"""The length of an array."""


def header(
    producer_id: int = ANN,
    sequence: int = 0,
    *,
    offset: int = 0,
    count: int = 1,
    epoch: int = 0,
    timestamp: int = 0,
    is_transactional: bool = False,
    is_control: bool = False,
) -> BatchHeader:
    attributes = encode_attributes(
        Compression.NONE,
        TimestampType.CREATE_TIME,
        is_transactional=is_transactional or is_control,
        is_control=is_control,
        has_delete_horizon=False,
    )
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=count,
    )


def written(producer_id: int, offset: int, epoch: int = 0, sequence: int = 0) -> BatchHeader:
    """A batch of ten records in a transaction."""
    return header(
        producer_id, sequence, offset=offset, count=10, epoch=epoch, is_transactional=True
    )


def marker(producer_id: int, offset: int, epoch: int = 0, timestamp: int = 0) -> BatchHeader:
    return header(producer_id, -1, offset=offset, epoch=epoch, timestamp=timestamp, is_control=True)


def producers(*headers: BatchHeader) -> Producers:
    known = Producers()
    for each in headers:
        known.update(each)
    return known


def refusal(
    known: Producers, batch: BatchHeader, origin: Origin = CLIENT, tv: int = 0
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        known.check(batch, origin, tv)
    return caught.value.code


def marker_refusal(known: Producers, batch: BatchHeader, coordinator: int, tv: int) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        known.check_marker(batch, coordinator, COORDINATOR, tv)
    return caught.value.code


def test_batches_without_a_producer_are_not_remembered() -> None:
    anonymous = header(-1, -1, epoch=-1)
    known = producers(anonymous, anonymous)
    assert known.check(anonymous, CLIENT) is None
    assert len(known) == 0
    assert known == Producers()


def test_sequences_follow_each_other() -> None:
    known = producers(header(sequence=0, count=3))
    assert known.check(header(sequence=3), CLIENT) is None
    for gap in (1, 2, 4, LAST_SEQUENCE):
        assert refusal(known, header(sequence=gap)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_start_again_after_the_last() -> None:
    known = producers(header(sequence=LAST_SEQUENCE))
    assert known.check(header(sequence=0), CLIENT) is None
    across = header(sequence=LAST_SEQUENCE - 1, count=4, offset=20)
    known = producers(across)
    assert known.check(header(sequence=2), CLIENT) is None
    assert known.check(across, CLIENT) == (1, 23, 3, 0)


def test_any_of_the_last_five_batches_may_come_again() -> None:
    batches = [header(sequence=i * 2, count=2, offset=100 + i * 10, timestamp=i) for i in range(6)]
    known = producers(*batches)
    assert refusal(known, batches[0]) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for i, batch in list(enumerate(batches))[1:]:
        original = known.check(batch, CLIENT)
        assert original is not None
        assert (original.base_offset, original.last_offset) == (100 + i * 10, 101 + i * 10)
        assert original.timestamp == i


def test_what_comes_again_cut_differently_is_out_of_order() -> None:
    known = producers(header(sequence=0, count=2), header(sequence=2, count=2))
    assert refusal(known, header(sequence=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(known, header(sequence=0, count=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert Producers().check(header(sequence=77), CLIENT) is None
    assert Producers().check(header(sequence=77), CLIENT, transaction_version=2) is None


def test_an_unknown_producer_of_transactions_v2_starts_at_zero() -> None:
    late = header(sequence=77, is_transactional=True)
    assert Producers().check(late, CLIENT, transaction_version=1) is None
    assert refusal(Producers(), late, tv=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first = header(sequence=0, is_transactional=True)
    assert Producers().check(first, CLIENT, transaction_version=2) is None


def test_a_new_epoch_starts_at_zero() -> None:
    known = producers(header(sequence=0, count=5))
    assert known.check(header(sequence=0, epoch=1), CLIENT) is None
    code = refusal(known, header(sequence=5, epoch=1))
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced_even_with_what_it_wrote_before() -> None:
    known = producers(header(sequence=0), header(sequence=0, epoch=1))
    assert refusal(known, header(sequence=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(known, header(sequence=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_coordinators_have_epochs_and_no_sequences() -> None:
    known = producers(header(sequence=-1, epoch=3, is_transactional=True))
    offsets = header(sequence=-1, epoch=3, is_transactional=True)
    assert known.check(offsets, COORDINATOR) is None
    stale = header(sequence=-1, epoch=2, is_transactional=True)
    assert refusal(known, stale, COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_follower_refuses_nothing() -> None:
    known = producers(written(ANN, 0, epoch=4))
    assert known.check(header(sequence=99, epoch=1), REPLICATION) is None
    known.end_transaction(marker(ANN, 10, epoch=5), COMMIT, coordinator_epoch=9)
    known.check_marker(marker(ANN, 11, epoch=1), 2, REPLICATION, transaction_version=0)


def test_an_open_transaction_takes_nothing_but_transactional_batches() -> None:
    known = producers(written(ANN, 0))
    assert refusal(known, header(sequence=10)) == ErrorCode.INVALID_TXN_STATE
    assert known.check(written(ANN, 10, sequence=10), CLIENT) is None


def test_checks_change_nothing() -> None:
    known = producers(written(ANN, 0))
    before = producers(written(ANN, 0))
    known.check(written(ANN, 10, sequence=10), CLIENT)
    known.check(written(BOB, 10), CLIENT)
    known.check_marker(marker(ANN, 20), 3, COORDINATOR, transaction_version=0)
    known.check_marker(marker(BOB, 20), 3, COORDINATOR, transaction_version=2)
    assert known == before


def test_a_marker_of_transactions_v1_has_the_epoch_of_its_transaction_or_a_later_one() -> None:
    known = producers(written(ANN, 0, epoch=4))
    for epoch in (4, 5):
        known.check_marker(marker(ANN, 10, epoch=epoch), 0, COORDINATOR, transaction_version=1)
    stale = marker(ANN, 10, epoch=3)
    assert marker_refusal(known, stale, 0, tv=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_transactions_v2_has_a_later_epoch_than_its_transaction() -> None:
    known = producers(written(ANN, 0, epoch=4))
    known.check_marker(marker(ANN, 10, epoch=5), 0, COORDINATOR, transaction_version=2)
    for epoch in (3, 4):
        late = marker(ANN, 10, epoch=epoch)
        assert marker_refusal(known, late, 0, tv=2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_transactions_v2_may_come_again_after_the_end() -> None:
    known = producers(written(ANN, 0, epoch=4))
    end = marker(ANN, 10, epoch=5)
    known.end_transaction(end, COMMIT, 0)
    known.check_marker(end, 0, COORDINATOR, transaction_version=2)
    known.update(written(ANN, 11, epoch=5))
    assert marker_refusal(known, end, 0, tv=2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_the_last_epoch_has_no_later_one() -> None:
    known = producers(written(ANN, 0, epoch=LAST_EPOCH))
    end = marker(ANN, 10, epoch=LAST_EPOCH)
    known.check_marker(end, 0, COORDINATOR, transaction_version=2)


def test_a_marker_of_an_earlier_coordinator_is_fenced() -> None:
    known = producers(written(ANN, 0))
    known.end_transaction(marker(ANN, 10), COMMIT, coordinator_epoch=6)
    known.check_marker(marker(ANN, 11), 6, COORDINATOR, transaction_version=0)
    code = marker_refusal(known, marker(ANN, 11), 5, tv=0)
    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_after_a_marker_of_the_same_epoch_the_sequences_go_on() -> None:
    known = producers(written(ANN, 0))
    known.end_transaction(marker(ANN, 10), COMMIT, 0)
    assert known.check(written(ANN, 11, sequence=10), CLIENT) is None
    assert known.check(written(ANN, 0), CLIENT) is not None


def test_after_a_marker_of_a_later_epoch_the_sequences_start_again() -> None:
    known = producers(written(ANN, 0))
    known.end_transaction(marker(ANN, 10, epoch=1), COMMIT, 0)
    assert known.check(written(ANN, 11, epoch=1), CLIENT) is None
    code = refusal(known, written(ANN, 11, epoch=1, sequence=10))
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(known, written(ANN, 0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_earliest_open_transaction_is_the_first_unstable_offset() -> None:
    known = producers(written(ANN, 0), written(BOB, 10), written(ANN, 20, sequence=10))
    assert known.first_unstable_offset == 0
    known.end_transaction(marker(ANN, 30), COMMIT, 0)
    known.on_high_watermark(31)
    assert known.first_unstable_offset == 10
    known.end_transaction(marker(BOB, 31), COMMIT, 0)
    known.on_high_watermark(32)
    assert known.first_unstable_offset is None


def test_what_ended_is_unstable_until_its_marker_is_replicated() -> None:
    known = producers(written(ANN, 0), written(BOB, 10))
    known.end_transaction(marker(ANN, 20), ABORT, 0)
    assert (known.first_undecided_offset, known.first_unstable_offset) == (10, 0)
    known.on_high_watermark(20)
    assert known.first_unstable_offset == 0
    known.on_high_watermark(21)
    assert known.first_unstable_offset == 10


def test_transactions_that_end_in_another_order_are_stable_in_the_order_they_began() -> None:
    known = producers(written(ANN, 0), written(BOB, 10))
    known.end_transaction(marker(BOB, 20), COMMIT, 0)
    known.end_transaction(marker(ANN, 21), COMMIT, 0)
    known.on_high_watermark(21)
    assert known.first_unstable_offset == 0
    known.on_high_watermark(22)
    assert known.first_unstable_offset is None


def test_an_abort_says_what_the_index_needs() -> None:
    known = producers(written(ANN, 0), written(BOB, 10))
    first = known.end_transaction(marker(ANN, 20), ABORT, 0)
    assert first == AbortedTransaction(ANN, first_offset=0, last_offset=20, last_stable_offset=10)
    second = known.end_transaction(marker(BOB, 21), ABORT, 0)
    assert second == AbortedTransaction(BOB, first_offset=10, last_offset=21, last_stable_offset=22)


def test_a_commit_and_the_end_of_nothing_abort_nothing() -> None:
    known = producers(written(ANN, 0))
    assert known.end_transaction(marker(ANN, 10), COMMIT, 0) is None
    assert known.end_transaction(marker(ANN, 11), ABORT, 0) is None
    assert known.end_transaction(marker(BOB, 12), ABORT, 0) is None
    known.on_high_watermark(11)
    assert known.first_unstable_offset is None


def test_a_marker_that_compaction_emptied_ends_nothing() -> None:
    known = producers(written(ANN, 0))
    known.update(msgspec.structs.replace(marker(ANN, 10), records_count=0))
    assert known == producers(written(ANN, 0))


def test_producers_expire_after_their_last_timestamp() -> None:
    known = Producers(expiration_ms=1000)
    known.update(header(ANN, timestamp=5_000))
    known.update(header(BOB, timestamp=5_001))
    assert known.expire(now_ms=5_999) == []
    assert known.expire(now_ms=6_000) == [ANN]
    assert [producer.producer_id for producer in known] == [BOB]
    assert known.check(header(ANN, sequence=50), CLIENT) is None, "nobody knows it any more"


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    known = producers(written(ANN, 0))
    assert known.expire(now_ms=10**15) == []
    known.end_transaction(marker(ANN, 10, timestamp=10**15), ABORT, 0)
    assert known.expire(now_ms=10**15) == []
    assert known.expire(now_ms=2 * 10**15) == [ANN]


def test_reset_forgets_everything() -> None:
    known = producers(written(ANN, 0), written(BOB, 10))
    known.end_transaction(marker(ANN, 20), ABORT, 0)
    known.reset()
    assert known == Producers()
    assert known.first_unstable_offset is None


def test_a_snapshot_has_every_batch_that_may_be_repeated() -> None:
    known = producers(
        header(ANN, 0, offset=0, timestamp=1), header(ANN, 1, offset=1, count=4, timestamp=2)
    )
    loaded = Producers()
    loaded.restore(decode_snapshot(encode_snapshot(known)))
    assert loaded == known
    first = header(ANN, 0, offset=99)
    assert loaded.check(first, CLIENT) == known.check(first, CLIENT) == (0, 0, 0, 1)


def test_a_snapshot_of_kafkas_has_the_last_batch_of_each_producer() -> None:
    known = producers(
        header(ANN, 0, offset=0, timestamp=1), header(ANN, 1, offset=1, count=4, timestamp=2)
    )
    ours = encode_snapshot(known)
    (at,) = [place for place in range(len(ours)) if ours[place:].startswith(b"pyk1")]
    theirs = ours[6:at]
    loaded = Producers()
    loaded.restore(decode_snapshot(struct.pack(">hI", 1, crc32c(theirs)) + theirs))
    last = header(ANN, 1, offset=99, count=4)
    assert loaded.check(last, CLIENT) == known.check(last, CLIENT) == (4, 4, 3, 2)
    assert refusal(loaded, header(ANN, 0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_snapshot_has_open_transactions_and_coordinators() -> None:
    known = producers(written(BOB, 0), written(ANN, 10))
    known.end_transaction(marker(BOB, 20, timestamp=9), ABORT, coordinator_epoch=3)
    known.update(written(BOB, 21, sequence=10))
    loaded = Producers()
    loaded.restore(decode_snapshot(encode_snapshot(known)))
    assert loaded.first_unstable_offset == 10
    assert marker_refusal(loaded, marker(BOB, 40), 2, tv=0) == (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    aborted = loaded.end_transaction(marker(ANN, 31), ABORT, 0)
    assert aborted == AbortedTransaction(ANN, 10, 31, 21)


def test_a_snapshot_starts_with_its_version_and_crc() -> None:
    assert encode_snapshot(Producers()) == bytes.fromhex("0001 48674bc7 00000000")


def test_more_producers_than_a_request_may_have_objects_fit_into_a_snapshot() -> None:
    known = producers(*(header(producer_id) for producer_id in range(60_000)))
    loaded = Producers()
    loaded.restore(decode_snapshot(encode_snapshot(known)))
    assert loaded == known


def test_a_snapshot_with_any_bit_changed_is_damaged() -> None:
    good = encode_snapshot(producers(written(ANN, 0), header(BOB)))
    known = producers(header(ANN))
    for place, bit in itertools.product(range(len(good)), range(8)):
        bad = bytearray(good)
        bad[place] ^= 1 << bit
        with pytest.raises(DamagedSnapshot):
            known.restore(decode_snapshot(bad))
    for size in range(len(good)):
        with pytest.raises(DamagedSnapshot):
            known.restore(decode_snapshot(good[:size]))
    assert known == producers(header(ANN)), "nothing was half loaded"


@given(st.binary(max_size=100))
def test_any_bytes_are_damaged(data: bytes) -> None:
    with pytest.raises(DamagedSnapshot):
        Producers().restore(decode_snapshot(data))


@given(st.binary(max_size=100) | st.binary(min_size=92, max_size=92).map(lambda b: TWO + b))
def test_any_bytes_with_the_right_crc_are_read_or_damaged(data: bytes) -> None:
    known = Producers()
    try:
        known.restore(decode_snapshot(struct.pack(">hI", 1, crc32c(data)) + data))
    except DamagedSnapshot:
        assert known == Producers()


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 3), st.integers(1, 3))), st.data())
def test_the_state_is_what_the_log_says(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    live = Producers()
    log = list(appended(live, steps))
    replayed = Producers()
    replay(replayed, log)
    assert replayed == live

    taken_at = data.draw(st.integers(0, len(log)))
    before = Producers()
    replay(before, log[:taken_at])
    resumed = Producers()
    resumed.restore(decode_snapshot(encode_snapshot(before)))
    replay(resumed, log[taken_at:])
    end = log[-1].next_offset if log else 0
    for known in (live, resumed):
        known.on_high_watermark(end)
    assert resumed == live
    open_offsets = [p.current_txn_first_offset for p in live]
    first_open = min((o for o in open_offsets if o is not None), default=None)
    assert live.first_unstable_offset == resumed.first_unstable_offset == first_open


def appended(known: Producers, steps: Iterable[tuple[str, int, int]]) -> Iterator[BatchHeader]:
    """What of the steps is accepted, as a leader would."""
    offset = 0
    for step, producer_id, count in steps:
        batch = attempt(known, step, producer_id, offset, count)
        try:
            if batch.is_control:
                known.check_marker(batch, COORDINATOR_EPOCH, COORDINATOR, count)
            elif known.check(batch, CLIENT, transaction_version=2) is not None:
                continue
        except KafkaError:
            continue
        replay(known, [batch])
        offset = batch.next_offset
        yield batch


def attempt(known: Producers, step: str, producer_id: int, offset: int, count: int) -> BatchHeader:
    producer = known.get(producer_id)
    epoch = max(producer.epoch, 0) if producer else 0
    sequence = (producer.last_sequence + 1) & LAST_SEQUENCE if producer else 0
    match step:
        case "commit" | "abort":
            # The outcome is in the record, which a header does not have: here it is in the time.
            timestamp = COMMIT if step == "commit" else ABORT
            return marker(producer_id, offset, epoch + (count > 1), timestamp)
        case "bump":
            epoch, sequence = epoch + 1, 0
        case "repeat" if producer and producer.batches:
            sequence, count = producer.batches[0].base_sequence, 1
        case "gap":
            sequence += 1
    return header(
        producer_id,
        sequence,
        offset=offset,
        count=count,
        epoch=epoch,
        timestamp=offset,
        is_transactional=step in ("transactional", "bump"),
    )


def replay(known: Producers, log: Iterable[BatchHeader]) -> None:
    for batch in log:
        if batch.is_control:
            known.end_transaction(batch, ControlType(batch.max_timestamp), COORDINATOR_EPOCH)
        else:
            known.update(batch)


def first_of_a_transaction(producers: Producers, guard: Guard | None, epoch: int = 0) -> None:
    """Raise KafkaError."""
    batch = header(is_transactional=True, epoch=epoch)
    assert producers.check(batch, CLIENT, 2, guard) is None
    producers.update(batch)


def test_the_first_batch_of_a_transaction_has_to_show_a_guard() -> None:
    producers = Producers()
    with pytest.raises(KafkaError) as refusal:
        first_of_a_transaction(producers, None)
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE
    guard = producers.guard_for(ANN, 0)
    assert guard is not None
    first_of_a_transaction(producers, guard)
    assert producers.guard_for(ANN, 0) is None, "it is known to be open"
    producers.check(header(sequence=1, is_transactional=True), CLIENT, 2, None)


def test_those_who_ask_at_once_are_given_the_same_guard() -> None:
    producers = Producers()
    assert producers.guard_for(ANN, 0) is producers.guard_for(ANN, 0)
    assert producers.guard_for(ANN, 0) is not producers.guard_for(BOB, 0)


def test_a_marker_takes_the_guard_away() -> None:
    producers = Producers()
    guard = producers.guard_for(ANN, 0)
    producers.end_transaction(header(is_control=True), ABORT, COORDINATOR_EPOCH)
    with pytest.raises(KafkaError) as refusal:
        first_of_a_transaction(producers, guard)
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE
    first_of_a_transaction(producers, producers.guard_for(ANN, 0))


def test_a_guard_that_was_dropped_is_worth_nothing() -> None:
    producers = Producers()
    guard = producers.guard_for(ANN, 0)
    producers.drop_guard(ANN)
    with pytest.raises(KafkaError):
        first_of_a_transaction(producers, guard)


def test_an_open_transaction_of_another_epoch_is_another() -> None:
    producers = Producers()
    first_of_a_transaction(producers, producers.guard_for(ANN, 0))
    assert producers.guard_for(ANN, 1) is not None


def test_a_batch_that_was_there_before_needs_no_guard() -> None:
    producers = Producers()
    first_of_a_transaction(producers, producers.guard_for(ANN, 0))
    producers.end_transaction(header(offset=1, is_control=True), COMMIT, COORDINATOR_EPOCH)
    assert producers.check(header(is_transactional=True), CLIENT, 0, None) is not None


def test_a_batch_does_not_pass_over_one_that_was_verified_before() -> None:
    """The partition knows nothing of the producer, who may begin with any sequence in v1. But the
    coordinator was away when the first batch came, and is back for the second."""
    producers = Producers()
    first, second = (header(sequence=n, offset=n, is_transactional=True) for n in range(2))
    assert producers.guard_for(ANN, 0, 0) is producers.guard_for(ANN, 0, 1)
    guard = producers.guard_for(ANN, 0, 1)
    with pytest.raises(KafkaError) as refusal:
        producers.check(second, CLIENT, 0, guard)
    assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for batch in (first, second):
        assert producers.check(batch, CLIENT, 0, guard) is None
        producers.update(batch)


def test_a_new_epoch_has_nothing_to_do_with_what_was_verified_in_the_last() -> None:
    producers = Producers()
    producers.guard_for(ANN, 0, 0)
    guard = producers.guard_for(ANN, 1, 7)
    batch = header(sequence=7, epoch=1, is_transactional=True)
    assert producers.check(batch, CLIENT, 0, guard) is None


def test_a_guard_that_nobody_comes_again_for_is_forgotten() -> None:
    producers = Producers()
    guard = producers.guard_for(ANN, 0, 0)
    producers.expire(0)
    assert producers.guard_for(ANN, 0, 0) is guard
    producers.expire(0)
    assert producers.guard_for(ANN, 0, 0) is not guard
