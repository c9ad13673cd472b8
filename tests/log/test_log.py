"""A partition's log against a plain list of what was put into it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.disk import RealDisk
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.indexed_batches import Piece
from pyk.log.log import Appended, Log
from pyk.log.producers import Origin, Producers
from pyk.log.snapshots import encode_snapshot
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import read_header
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records
from tests.log.test_segment import taken
from tests.simulated_disk import ROOT, Content, SimulatedDisk

HOME = ROOT / "topic-0"
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150, file_delete_delay_ms=10)
NEVER = SMALL.retention_ms
ANN, BOB = 1, 2
COORDINATOR_EPOCH = 4


def batch(
    *timestamps: int,
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """As a producer sends it: at offset 0."""
    records = [
        Record(
            offset=i,
            timestamp=timestamp,
            key=b"%d" % (timestamp % 5),
            value=b"%d" % timestamp if timestamp % 7 else None,
        )
        for i, timestamp in enumerate(timestamps or (0,))
    ]
    data = build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    return bytearray(data)


def marker(producer_id: int, outcome: ControlType, epoch: int = 0, timestamp: int = 0) -> bytearray:
    key, value = encode_end_marker(outcome, COORDINATOR_EPOCH)
    data = build_batch(
        [Record(offset=0, timestamp=timestamp, key=key, value=value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )
    return bytearray(data)


def add(log: Log, *batches: bytearray, epoch: int = 0) -> Appended:
    for data in batches:
        origin = Origin.COORDINATOR if read_header(data).is_control else Origin.CLIENT
        appended = log.append(data, leader_epoch=epoch, now_ms=0, origin=origin)
    return appended


def records_of(piece: Piece | None) -> list[Record]:
    if piece is None:
        return []
    found = piece.records
    data = found.file.read(found.position, found.size)  # type: ignore[attr-defined]
    records: list[Record] = []
    position = 0
    for header in taken(piece):
        records += read_records(data, position, header)
        position += header.size
    return records


def names(disk: SimulatedDisk, suffix: str) -> list[int]:
    return [int(name[:20]) for name in disk.names(HOME) if name.endswith(suffix)]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return Log.open(disk, HOME, SMALL)


def test_an_empty_log_starts_and_ends_at_0(log: Log) -> None:
    assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 0, 0)
    assert log.last_stable_offset == 0
    assert log.read(0, 100, log.end_offset) is None
    assert log.find_timestamp(0) is None
    assert log.find_newest() is None
    assert log.aborted(0, 0) == []


def test_batches_are_stamped_with_their_offset_and_the_leaders_epoch(log: Log) -> None:
    assert add(log, batch(7, 9), epoch=3) == Appended(0, 1, 9)
    assert add(log, batch(8), epoch=5) == Appended(2, 2, 8)
    headers = taken(log.read(0, 1000, 3))
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 3), (2, 5)]
    assert log.epochs.entries == [(3, 0), (5, 2)]


def test_offsets_that_are_not_in_the_log_are_out_of_range(log: Log) -> None:
    add(log, batch(1), batch(2))
    log.advance_high_watermark(2)
    log.advance_start(1)
    for offset in (0, 3, -1):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 1000, 2)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(2, 1000, 2) is None


def test_a_repeated_batch_is_answered_with_its_first_place(log: Log) -> None:
    add(log, batch(5, 6, producer_id=ANN, sequence=0))
    add(log, batch(7, producer_id=ANN, sequence=2))
    again = add(log, batch(5, 6, producer_id=ANN, sequence=0))
    assert again == Appended(0, 1, 6, is_repeated=True)
    assert log.end_offset == 3


def test_what_a_producer_may_not_do_changes_nothing(log: Log) -> None:
    add(log, batch(5, producer_id=ANN, sequence=0))
    before = encode_snapshot(log.producers)
    with pytest.raises(KafkaError) as refused:
        add(log, batch(5, producer_id=ANN, sequence=7), epoch=9)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.end_offset, encode_snapshot(log.producers)) == (1, before)
    assert log.epochs.entries == [(0, 0)]


def test_a_marker_of_a_coordinator_of_the_past_is_refused(log: Log) -> None:
    add(log, batch(1, producer_id=ANN, sequence=0, is_transactional=True))
    add(log, marker(ANN, ControlType.COMMIT))
    key, value = encode_end_marker(ControlType.ABORT, COORDINATOR_EPOCH - 1)
    late = build_batch(
        [Record(offset=0, timestamp=0, key=key, value=value)],
        producer_id=ANN,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    with pytest.raises(KafkaError) as refused:
        add(log, bytearray(late))
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_committed_readers_see_nothing_undecided(log: Log) -> None:
    add(log, batch(1), batch(2, producer_id=ANN, sequence=0, is_transactional=True), batch(3))
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    add(log, marker(ANN, ControlType.ABORT))
    assert log.last_stable_offset == 1, "the marker may yet be lost"
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert log.aborted(0, 4) == [AbortedTransaction(ANN, 1, 3, 4)]
    assert log.aborted(0, 1) == []


def test_aborted_transactions_are_found_in_later_segments(log: Log) -> None:
    add(log, batch(1, producer_id=ANN, sequence=0, is_transactional=True))
    add(log, batch(1, producer_id=BOB, sequence=0, is_transactional=True))
    log.roll()
    add(log, marker(BOB, ControlType.ABORT))
    log.roll()
    add(log, marker(ANN, ControlType.ABORT))
    assert [t.producer_id for t in log.aborted(0, 2)] == [BOB, ANN]
    assert [t.producer_id for t in log.aborted(3, 4)] == [ANN]


def test_a_snapshot_is_kept_for_each_segment_and_for_the_end(log: Log, disk: SimulatedDisk) -> None:
    add(log, *(batch(i, producer_id=ANN, sequence=i) for i in range(20)))
    assert names(disk, ".snapshot") == names(disk, ".log")[1:]
    log.close()
    assert names(disk, ".snapshot") == [*names(disk, ".log")[1:], 20]
    again = Log.open(disk, HOME, SMALL, high_watermark=20)
    add(again, batch(20, producer_id=ANN, sequence=20))
    again.close()
    assert names(disk, ".snapshot") == [*names(disk, ".log")[1:], 21]


def test_without_snapshots_it_knows_as_much(log: Log, disk: SimulatedDisk) -> None:
    add(log, *(batch(i, producer_id=ANN, sequence=i) for i in range(20)))
    add(log, batch(1, producer_id=BOB, sequence=0, is_transactional=True))
    log.close()
    for number, offset in enumerate(names(disk, ".snapshot")):
        path = HOME / f"{offset:020}.snapshot"
        disk.remove(path)
        if number % 2:
            disk.replace(path, b"nonsense")
    again = Log.open(disk, HOME, SMALL)
    assert again.producers == log.producers
    assert again.epochs.entries == log.epochs.entries


def test_epochs_are_read_from_the_batches_if_their_file_is_damaged(
    log: Log, disk: SimulatedDisk
) -> None:
    for epoch in (1, 1, 4, 7):
        add(log, *(batch(i) for i in range(5)), epoch=epoch)
    log.close()
    disk.replace(HOME / "leader-epoch-checkpoint", b"0\n1\n")
    assert Log.open(disk, HOME, SMALL).epochs.entries == [(1, 0), (4, 10), (7, 15)]


def test_a_damaged_index_of_aborted_transactions_is_built_anew(
    log: Log, disk: SimulatedDisk
) -> None:
    for i in range(6):
        add(log, batch(i, producer_id=ANN, sequence=i, is_transactional=True), batch(i))
        add(log, marker(ANN, ControlType.ABORT))
    aborted = log.aborted(0, log.end_offset)
    assert len(aborted) == 6
    log.close()
    for base in names(disk, ".txnindex"):
        disk.open(HOME / f"{base:020}.txnindex").append(b"torn")
    again = Log.open(disk, HOME, SMALL, high_watermark=log.end_offset)
    assert again.aborted(0, log.end_offset) == aborted


def test_replicated_batches_keep_their_offsets_and_epochs(log: Log, disk: SimulatedDisk) -> None:
    add(log, batch(1), batch(2, 3), epoch=2)
    add(log, batch(4), epoch=6)
    piece = log.read(0, 1000, 4)
    assert piece is not None
    found = piece.records
    data = found.file.read(found.position, found.size)  # type: ignore[attr-defined]
    follower = Log.open(disk, ROOT / "follower-0", SMALL)
    follower.append_replicated(data[:-1], now_ms=0)
    assert follower.end_offset == 3, "what is cut off comes with the next fetch"
    with pytest.raises(KafkaError):
        follower.append_replicated(data, now_ms=0)
    follower.append_replicated(data[-read_header(batch(4)).size :], now_ms=0)
    assert follower.end_offset == 4
    assert follower.epochs.entries == log.epochs.entries
    assert records_of(follower.read(0, 1000, 4)) == records_of(log.read(0, 1000, 4))


def test_a_log_that_lost_what_is_before_its_start_begins_there(disk: SimulatedDisk) -> None:
    log = Log.open(disk, HOME, SMALL, recovery_point=0, start_offset=40)
    assert (log.start_offset, log.end_offset) == (40, 40)


def test_flushes_are_due_by_count_and_by_time(log: Log) -> None:
    log.config = replace(SMALL, flush_messages=3, flush_ms=100)
    assert not log.is_flush_due(10**9)
    add(log, batch(1), batch(2))
    assert not log.is_flush_due(99)
    assert log.is_flush_due(100)
    add(log, batch(3))
    assert log.is_flush_due(0)
    flush = log.begin_flush()
    add(log, batch(4))
    flush.run()
    log.end_flush(flush)
    assert log.flushed_end == 3
    assert not log.is_flush_due(99)
    assert log.is_flush_due(100)


def test_a_repeated_batch_waits_for_the_flush_of_the_first(log: Log) -> None:
    log.config = replace(SMALL, flush_messages=1)
    add(log, batch(producer_id=ANN, sequence=0))
    flush = log.begin_flush()
    assert add(log, batch(producer_id=ANN, sequence=0)).is_repeated
    assert log.is_flush_due(0)
    flush.run()
    assert log.is_flush_due(0)
    log.end_flush(flush)
    assert add(log, batch(producer_id=ANN, sequence=0)).is_repeated
    assert not log.is_flush_due(0)


def test_what_a_failed_flush_had_is_due_still(log: Log) -> None:
    log.config = replace(SMALL, flush_ms=100)
    add(log, batch())
    log.begin_flush()
    assert log.is_flush_due(100)


class DirectoryBusyOnce(SimulatedDisk):
    """It cannot open a directory to sync it, once, and counts how many files were synced."""

    is_busy = False
    synced_files = 0

    def sync_directory(self, path: Path) -> None:
        if self.is_busy:
            self.is_busy = False
            raise OSError("Too many open files")
        super().sync_directory(path)

    def _sync(self, content: Content) -> None:
        self.synced_files += 1
        super()._sync(content)


def test_files_of_a_flush_that_failed_are_synced_by_the_next_one_only() -> None:
    disk = DirectoryBusyOnce()
    log = Log.open(disk, HOME, SMALL)
    add(log, batch())
    disk.is_busy = True
    with pytest.raises(OSError, match="Too many"):
        log.flush()
    disk.synced_files = 0
    log.flush()
    assert disk.synced_files >= 3, "the log and two indexes"
    assert Log.open(disk.synced(), HOME, SMALL, recovery_point=1).end_offset == 1
    disk.synced_files = 0
    add(log, batch())
    log.flush()
    assert disk.synced_files == 1, "the indexes have nothing new"
    disk.synced_files = 0
    log.flush()
    assert disk.synced_files == 0


def test_a_flush_that_a_truncation_overtook_says_nothing(log: Log) -> None:
    add(log, batch(1), batch(2), batch(3))
    flush = log.begin_flush()
    log.truncate(1)
    add(log, batch(4), batch(5))
    flush.run()
    log.end_flush(flush)
    assert log.flushed_end == 0


def test_time_retention_counts_from_the_newest_record_of_a_segment(log: Log) -> None:
    log.config = replace(SMALL, retention_ms=100)
    add(log, batch(50, 90))
    log.roll()
    add(log, batch(60))
    log.roll()
    add(log, batch(200))
    log.advance_high_watermark(4)
    assert log.retire(now_ms=190) == 0
    assert log.retire(now_ms=191) == 2
    assert log.start_offset == 3
    assert log.retire(now_ms=301) == 1
    assert (log.start_offset, log.end_offset) == (4, 4), "empty, and it goes on from there"
    assert add(log, batch(1)).base_offset == 4


def test_size_retention_keeps_at_least_so_much(log: Log) -> None:
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(40)
    bytes_kept = log.size - 700
    log.config = replace(SMALL, retention_bytes=bytes_kept)
    assert log.retire(now_ms=0) == 1
    assert log.size >= bytes_kept


def test_what_is_not_committed_is_not_retired(log: Log) -> None:
    log.config = replace(SMALL, retention_ms=0, retention_bytes=0)
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(20)
    log.retire(now_ms=10**9)
    assert 0 < log.start_offset <= 20
    assert log.end_offset == 40


def test_a_log_that_is_only_compacted_loses_what_is_before_its_start(log: Log) -> None:
    log.config = replace(
        SMALL,
        cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
        retention_ms=0,
        retention_bytes=0,
    )
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(40)
    assert log.retire(now_ms=10**9) == 0
    log.advance_start(25)
    assert log.retire(now_ms=10**9) > 0
    assert log.start_offset == 25
    assert records_of(log.read(25, 10**6, 40))[0].offset == 25


def test_files_of_retired_segments_go_later(log: Log, disk: SimulatedDisk) -> None:
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(40)
    piece = log.read(0, 10**6, 40)
    expected = records_of(piece)
    log.advance_start(40)
    assert log.retire(now_ms=100) > 0
    log.sweep(now_ms=100)
    log.sweep(now_ms=109)
    assert any(name.endswith(".deleted") for name in disk.names(HOME))
    log.sweep(now_ms=110)
    assert not any(name.endswith(".deleted") for name in disk.names(HOME))
    assert records_of(piece) == expected, "a reader is still in it"


def test_producers_of_retired_segments_are_remembered(log: Log, disk: SimulatedDisk) -> None:
    add(log, batch(1, producer_id=ANN, sequence=0))
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(41)
    log.advance_start(41)
    log.retire(now_ms=0)
    log.flush()
    again = Log.open(disk.kill9(), HOME, SMALL, recovery_point=log.flushed_end, high_watermark=41)
    assert again.start_offset > 1
    assert add(again, batch(1, producer_id=ANN, sequence=0)).is_repeated


def test_replaying_in_full_gives_what_was_known() -> None:
    """Without the help of any snapshot, whatever was rolled."""
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, SMALL)
    for i in range(30):
        add(log, batch(i, producer_id=ANN, sequence=i, is_transactional=i % 3 > 0))
        if i % 3 == 2:
            add(log, marker(ANN, ControlType(i % 2)))
    full = Producers()
    for offset in names(disk, ".snapshot"):
        disk.remove(HOME / f"{offset:020}.snapshot")
    replayed = Log.open(disk, HOME, SMALL, recovery_point=0)
    assert replayed.producers == log.producers != full


def test_a_flush_that_ends_first_does_not_speak_for_one_that_began_before(
    log: Log, disk: SimulatedDisk
) -> None:
    add(log, batch(1), batch(2))
    first = log.begin_flush()
    log.roll()
    add(log, batch(3))
    second = log.begin_flush()
    second.run()
    log.end_flush(second)
    assert log.flushed_end == 3
    assert Log.open(disk.synced(), HOME, SMALL, recovery_point=3).end_offset == 3
    first.run()
    log.end_flush(first)
    assert log.flushed_end == 3


def test_what_was_aborted_is_durable_as_soon_as_it_is_indexed_anew(
    log: Log, disk: SimulatedDisk
) -> None:
    add(log, batch(1, producer_id=ANN, sequence=0, is_transactional=True))
    add(log, marker(ANN, ControlType.ABORT))
    aborted = log.aborted(0, 2)
    log.close()
    disk.open(HOME / f"{0:020}.txnindex").append(b"torn")
    again = Log.open(disk, HOME, SMALL, high_watermark=2)
    assert again.aborted(0, 2) == aborted != []
    later = Log.open(disk.synced(), HOME, SMALL, high_watermark=2)
    assert later.aborted(0, 2) == aborted


def test_a_disk_that_fails_while_truncating_leaves_what_is_known_in_step(
    log: Log, disk: SimulatedDisk
) -> None:
    for i in range(12):
        add(log, batch(i, producer_id=ANN, sequence=i), epoch=i // 4)
    disk.capacity = 0
    with pytest.raises(OSError, match="space"):
        log.truncate(5)
    disk.capacity = None
    known = log.producers.get(ANN)
    assert known is not None
    assert known.last_data_offset == log.end_offset - 1
    latest = log.epochs.latest
    assert latest is not None
    assert latest.start_offset < log.end_offset
    log.truncate(5)
    assert log.end_offset <= 5
    add(log, batch(5, producer_id=ANN, sequence=5), epoch=9)
    log.close()
    again = Log.open(disk, HOME, SMALL)
    assert again.epochs.entries == log.epochs.entries


def test_compaction_runs_in_a_thread_beside_appends_and_reads(tmp_path: Path) -> None:
    config = replace(
        SMALL,
        segment_bytes=20_000,
        cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
        min_cleanable_dirty_ratio=0,
    )
    log = Log.open(RealDisk(), tmp_path / "topic-0", config)
    wanted: dict[bytes | None, bytes | None] = {}

    def write(count: int) -> None:
        for i in range(count):
            data = batch(log.end_offset + 1, log.end_offset + i)
            wanted.update((r.key, r.value) for r in read_records(data))
            add(log, data)
        log.advance_high_watermark(log.end_offset)

    def read() -> dict[bytes | None, bytes | None]:
        found: dict[bytes | None, bytes | None] = {}
        offset = 0
        while (piece := log.read(offset, 10_000, log.end_offset)) is not None:
            found.update((record.key, record.value) for record in records_of(piece))
            offset = piece.end_offset
        return found

    write(2000)
    old = log.read(0, 10**6, log.end_offset)
    for _ in range(5):
        log.roll()
        log.flush()
        compaction = log.begin_compaction(now_ms=0)
        assert compaction is not None
        with ThreadPoolExecutor() as pool:
            running = pool.submit(compaction.run)
            is_done = False
            while not is_done:
                # Once more when it is done: the next round is to have something to compact.
                is_done = running.done()
                write(20)
                assert read() == wanted
        size = log.size
        log.end_compaction(compaction, running.result())
        assert log.size < size
        assert read() == wanted
    assert len(records_of(old)) > 100, "a reader is still in what was replaced"


def test_the_result_of_a_compaction_that_a_truncation_overtook_is_dropped(
    disk: SimulatedDisk,
) -> None:
    config = replace(
        SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), min_cleanable_dirty_ratio=0
    )
    log = Log.open(disk, HOME, config)
    add(log, *(batch(i) for i in range(30)))
    log.advance_high_watermark(30)
    log.flush()
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    assert log.begin_compaction(now_ms=0) is None, "one at a time"
    result = compaction.run()
    log.truncate(10)
    before = records_of(log.read(0, 10**6, 10))
    log.end_compaction(compaction, result)
    assert records_of(log.read(0, 10**6, 10)) == before
    assert not [name for name in disk.names(HOME) if name.endswith(".cleaned")]


def test_segments_are_not_retired_while_they_are_being_compacted(disk: SimulatedDisk) -> None:
    config = replace(
        SMALL, cleanup_policy=frozenset(CleanupPolicy), min_cleanable_dirty_ratio=0, retention_ms=0
    )
    log = Log.open(disk, HOME, config)
    add(log, *(batch(i) for i in range(30)))
    log.advance_high_watermark(30)
    log.flush()
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    assert log.retire(now_ms=10**9) == 0
    log.end_compaction(compaction, None)
    assert log.retire(now_ms=10**9) > 0
