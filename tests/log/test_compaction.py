"""Compaction: of each key the latest record stays, and everything else that somebody relies on."""

from __future__ import annotations

import dataclasses
import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pyk.log.compaction import plan, rewrite
from pyk.log.segments import Segments
from pyk.wire.batch import TimestampType, encode_batch, read_header
from pyk.wire.compression import Compression, CorruptBatch, compress
from pyk.wire.prefixed import ControlType
from pyk.wire.records import RECORDS_BYTES_MAX, Record, build_batch, read_records
from tests.log.compacted import (
    CONFIG,
    HOME,
    NOW,
    RETENTION_MS,
    Filled,
    aborted_before,
    batches,
    crash_compaction,
    data_records,
    markers,
    randomly_filled,
    replayed,
)
from tests.simulated_disk import SimulatedDisk

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
LARGE = replace(CONFIG, segment_bytes=10**6)
"""All sealed segments become one."""


@pytest.fixture
def filled() -> Filled:
    return Filled(SimulatedDisk(), LARGE)


def values(filled: Filled) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in data_records(filled.log)]


def bases(filled: Filled) -> list[int]:
    return [header.base_offset for header, _ in batches(filled.log)]


def test_the_latest_record_of_a_key_stays_at_its_offset(filled: Filled) -> None:
    filled.put((b"a", b"1"), (b"b", b"2"))
    filled.put((b"a", b"3"))
    filled.log.roll()
    filled.put((b"b", b"4"), (b"c", b"5"))
    filled.log.roll()
    result = filled.compact()
    assert values(filled) == [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"c", b"5")]
    assert result.end_offset == 5
    assert [each.bases for each in result.rewritten] == [(0, 3)]
    assert list(filled.log.bases) == [0, 5]


def test_a_shrunken_batch_keeps_all_but_its_records(filled: Filled) -> None:
    filled.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), producer=7, codec=Compression.GZIP)
    filled.put((b"c", b"4"))
    filled.log.roll()
    before, _ = batches(filled.log)[0]
    filled.compact()
    after, data = batches(filled.log)[0]
    assert [record.offset for record in read_records(data)] == [1, 2]
    assert after == replace_in(
        before,
        crc=after.crc,
        batch_length=after.batch_length,
        records_count=2,
        max_timestamp=max(record.timestamp for record in read_records(data)),
    )


def replace_in(header: object, **changes: int) -> object:
    import msgspec

    return msgspec.structs.replace(header, **changes)  # type: ignore[type-var]


def test_what_is_whole_is_copied_byte_for_byte(filled: Filled) -> None:
    filled.put((b"a", b"1"), codec=Compression.ZSTD)
    filled.put((b"b", b"2"))
    filled.log.roll()
    filled.put((b"a", b"3"))
    filled.log.roll()
    before = dict(zip(bases(filled), batches(filled.log), strict=True))
    filled.compact()
    assert batches(filled.log) == [before[1], before[2]]


def test_a_record_without_a_key_goes(filled: Filled) -> None:
    filled.put((None, b"1"), (b"a", b"2"), (None, None))
    filled.put((b"b", b"3"))
    filled.log.roll()
    filled.compact()
    assert values(filled) == [(1, b"a", b"2"), (3, b"b", b"3")]


def test_nothing_beyond_the_end_of_the_plan_counts(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.log.roll()
    filled.put((b"a", b"2"))
    filled.compact()
    assert values(filled) == [(0, b"a", b"1"), (1, b"a", b"2")]


def test_a_segment_of_which_nothing_goes_is_not_written_again(filled: Filled) -> None:
    filled.put((b"a", b"1"), (b"b", b"2"))
    filled.log.roll()
    filled.log.flush()
    disk = filled.disk
    assert isinstance(disk, SimulatedDisk)
    before = disk.operations
    assert filled.compact().rewritten == []
    assert disk.operations == before


def test_what_comes_before_the_first_change_is_kept(filled: Filled) -> None:
    for number in range(20):
        filled.put((b"%d" % number, b"x"))
    filled.put((b"z", b"1"))
    filled.put((b"z", b"2"))
    filled.log.roll()
    dropped, _ = batches(filled.log)[20]
    (rewritten,) = filled.compact().rewritten
    assert [offset for offset, *_ in values(filled)] == [*range(20), 21]
    assert rewritten.bytes_before - rewritten.bytes_after == dropped.size


def test_the_last_batch_stays_so_that_segments_meet() -> None:
    filled = Filled(SimulatedDisk(), replace(CONFIG, segment_bytes=150))
    for _ in range(6):
        filled.put((b"a", b"x" * 30))
    filled.log.roll()
    filled.compact()
    assert values(filled) == [(5, b"a", b"x" * 30)]
    assert [header.records_count for header, _ in batches(filled.log)] == [0, 0, 0, 0, 0, 1]
    again = Segments.open(filled.disk, HOME, CONFIG, recovery_point=0)
    assert (again.dropped_bytes, again.end_offset) == (0, 6)


def test_a_tombstone_goes_once_its_horizon_has_passed(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.put((b"a", None), (b"b", b"2"))
    filled.put((b"c", b"3"))
    filled.log.roll()
    sent = [each.record for each in filled.sent]
    filled.compact(NOW)
    header, _ = batches(filled.log)[0]
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + RETENTION_MS)
    assert data_records(filled.log) == sent[1:]
    assert filled.compact(NOW + RETENTION_MS - 1).rewritten == []
    filled.compact(NOW + RETENTION_MS)
    assert data_records(filled.log) == sent[2:]
    assert batches(filled.log)[0][0].base_timestamp == NOW + RETENTION_MS, "it stays"


def test_a_tombstone_deletes_what_is_before_it_even_when_it_goes_itself(filled: Filled) -> None:
    filled.put((b"a", None))
    filled.log.roll()
    filled.compact(NOW)
    filled.put((b"b", b"1"))
    filled.log.roll()
    filled.compact(NOW + RETENTION_MS)
    assert values(filled) == [(1, b"b", b"1")]


def test_append_times_stay_the_same_behind_a_horizon(filled: Filled) -> None:
    records = [Record(offset=n, timestamp=5, key=b"%d" % n, value=None) for n in range(3)]
    data = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW - 9)
    filled.log.append(data, read_header(data), NOW)
    filled.log.roll()
    filled.compact()
    assert [record.timestamp for record in data_records(filled.log)] == [NOW - 9] * 3
    assert batches(filled.log)[0][0].timestamp_type is TimestampType.LOG_APPEND_TIME


def test_a_horizon_that_never_comes_is_no_overflow() -> None:
    filled = Filled(SimulatedDisk(), replace(LARGE, delete_retention_ms=2**63 - 1))
    filled.put((b"a", None))
    filled.log.roll()
    filled.compact()
    assert data_records(filled.log) == [filled.sent[0].record]


def test_what_was_aborted_goes_and_does_not_count(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.put((b"a", b"2"), producer=1, in_transaction=True)
    filled.put((b"b", b"3"), producer=2, in_transaction=True)
    filled.end(1, ABORT)
    filled.end(2, COMMIT)
    filled.put((b"c", b"4"), producer=1)
    filled.log.roll()
    filled.compact()
    assert values(filled) == [(0, b"a", b"1"), (2, b"b", b"3"), (5, b"c", b"4")]


def test_a_marker_goes_after_the_records_and_its_horizon(filled: Filled) -> None:
    filled.put((b"a", b"1"), producer=1, in_transaction=True)
    filled.end(1, ABORT)
    filled.put((b"b", b"2"), producer=1)
    filled.log.roll()
    filled.compact(NOW)
    assert [entry.first_offset for entry in filled.log.at(0).aborted.entries] == [0]
    assert (bases(filled), markers(filled.log)) == ([1, 2], [1])
    filled.compact(NOW + 1)
    assert batches(filled.log)[0][0].base_timestamp == NOW + 1 + RETENTION_MS
    assert filled.log.at(0).aborted.entries == [], "nobody has to skip anything for it any more"
    filled.compact(NOW + RETENTION_MS)
    assert markers(filled.log) == [1]
    filled.compact(NOW + 1 + RETENTION_MS)
    assert bases(filled) == [2]


def test_a_marker_stays_as_long_as_a_record_of_its_transaction_does(filled: Filled) -> None:
    filled.put((b"a", b"1"), producer=1, in_transaction=True)
    filled.end(1, COMMIT)
    filled.put((b"b", b"2"), producer=1, in_transaction=True)
    filled.end(1, COMMIT)
    filled.put((b"b", b"3"))
    filled.log.roll()
    for later in range(5):
        filled.compact(NOW + later * RETENTION_MS)
    assert markers(filled.log) == [1, 3], "the batch that has the last sequence is there, too"
    assert values(filled) == [(0, b"a", b"1"), (4, b"b", b"3")]


def test_a_transaction_may_end_after_the_range(filled: Filled) -> None:
    filled.put((b"a", b"1"), producer=1, in_transaction=True)
    filled.put((b"b", b"2"))
    filled.log.roll()
    filled.end(1, ABORT)
    filled.put((b"x", b"3"), producer=1)
    filled.compact()
    assert bases(filled) == [0, 1, 2, 3], "the last batch of its producer up to there, emptied"
    assert batches(filled.log)[0][0].records_count == 0
    filled.log.roll()
    filled.compact(NOW)
    assert bases(filled) == [1, 2, 3]
    filled.compact(NOW)
    assert read_header(batches(filled.log)[1][1]).has_delete_horizon
    filled.compact(NOW + RETENTION_MS)
    assert bases(filled) == [1, 3]


def test_the_marker_that_tells_the_epoch_of_a_producer_is_emptied_only(filled: Filled) -> None:
    filled.put((b"a", b"1"), producer=1, in_transaction=True)
    filled.end(1, ABORT, new_epoch=True)
    filled.put((b"b", b"2"))
    filled.log.roll()
    for later in range(4):
        filled.compact(NOW + later * RETENTION_MS)
    header, _ = batches(filled.log)[0]
    assert (header.base_offset, header.is_control, header.records_count) == (1, True, 0)
    assert (header.producer_id, header.producer_epoch) == (1, 1)
    filled.producers.reset()
    filled.compact(NOW)
    assert bases(filled) == [2]


def test_the_last_batch_of_a_producer_is_emptied_only(filled: Filled) -> None:
    filled.put((b"a", b"1"), producer=1)
    filled.put((b"a", b"2"), (b"a", b"3"), producer=1, codec=Compression.LZ4)
    filled.put((b"a", b"4"))
    filled.log.roll()
    before = batches(filled.log)[1][0]
    filled.compact()
    after = batches(filled.log)[0][0]
    assert (after.base_offset, after.last_offset, after.records_count) == (1, 2, 0)
    assert after.last_sequence == before.last_sequence == 2
    assert after.max_timestamp == before.max_timestamp
    assert replayed(filled.log).get(1) == replace(
        filled.producers.get(1),  # type: ignore[type-var]
        batches=replayed(filled.log).get(1).batches,  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("ends_with_a_marker", [False, True])
def test_what_is_known_of_a_producer_survives_truncation_to_where_compaction_ended(
    filled: Filled, ends_with_a_marker: bool
) -> None:
    """A follower truncates what its leader does not have. A crash may take as much."""
    filled.put((b"a", b"1"), producer=1)
    if ends_with_a_marker:
        filled.put((b"b", b"1"), producer=1, in_transaction=True)
        filled.end(1, ABORT, new_epoch=True)
    filled.put((b"a", b"2"))
    filled.log.roll()
    known, end = replayed(filled.log).get(1), filled.log.end_offset
    assert known is not None
    filled.put((b"c", b"3"), producer=1)
    filled.compact()
    filled.log.truncate(end)
    found = replayed(filled.log).get(1)
    assert found is not None
    assert (found.epoch, found.last_sequence) == (known.epoch, known.last_sequence)
    assert found.last_data_offset == known.last_data_offset


def test_an_unstable_segment_takes_no_part(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.log.roll()
    filled.put((b"a", b"2"))
    filled.put((b"a", b"3"), producer=1, in_transaction=True)
    filled.log.roll()
    planned = filled.plan()
    assert planned is not None
    assert (planned.groups, planned.end_offset) == (((0,),), 1)


def due(filled: Filled, now_ms: int = NOW, cleaned_until: int = 0) -> tuple[object, int] | None:
    end = filled.log.end_offset
    found = plan(
        filled.log,
        cleaned_until=cleaned_until,
        log_start_offset=0,
        last_stable_offset=end,
        now_ms=now_ms,
    )
    return None if found is None else (found.groups, found.end_offset)


def three_segments(**settings: float) -> Filled:
    filled = Filled(SimulatedDisk(), replace(LARGE, **settings))
    for _ in range(3):
        filled.put((b"a", b"1"))
        filled.log.roll()
    return filled


def test_compaction_is_due_by_the_share_of_what_is_dirty() -> None:
    filled = three_segments(min_cleanable_dirty_ratio=0.5)
    assert due(filled, cleaned_until=1) == (((0, 1, 2),), 3)
    assert due(filled, cleaned_until=2) is None
    assert due(filled, cleaned_until=3) is None
    assert due(filled, cleaned_until=99) == (((0, 1, 2),), 3), "it was cut off since"


def test_young_segments_wait() -> None:
    newest = NOW - 10**6 + 7 * 2
    filled = three_segments(min_compaction_lag_ms=100)
    assert due(filled, newest + 100) == (((0, 1, 2),), 3)
    assert due(filled, newest + 99) == (((0, 1),), 2)
    assert due(filled, newest) is None


def test_old_segments_do_not_wait_for_others() -> None:
    filled = three_segments(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=100)
    oldest = NOW - 10**6 + 7
    assert due(filled, oldest + 100, cleaned_until=1) is None
    assert due(filled, oldest + 101, cleaned_until=1) == (((0, 1, 2),), 3)


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({"segment_bytes": 200}, ((0, 1), (2,))),
        ({"segment_bytes": 1}, ((0,), (1,), (2,))),
        ({"segment_index_bytes": 10}, ((0,), (1,), (2,))),
    ],
)
def test_segments_are_joined_as_long_as_they_fit(
    settings: dict[str, float], groups: object
) -> None:
    assert due(three_segments(**settings)) == (groups, 3)


def test_offsets_of_a_joined_segment_fit_into_its_index(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.log.roll()
    filled.put((b"b", b"1"), gap=2**31 - 10)
    filled.log.roll()
    filled.put((b"c", b"1"))
    filled.log.roll()
    filled.put((b"d", b"1"), gap=100)
    filled.log.roll()
    third = 2**31 - 8
    assert due(filled) == (((0, 1, third), (third + 1,)), third + 102)
    filled.compact()
    assert values(filled)[-2:] == [(third, b"c", b"1"), (third + 101, b"d", b"1")]


def test_a_plan_can_be_sent_to_another_process() -> None:
    planned = three_segments().plan()
    assert pickle.loads(pickle.dumps(planned)) == planned


def test_damage_stops_it_and_nothing_has_changed(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.put((b"a", b"2"))
    filled.log.roll()
    disk = filled.disk
    assert isinstance(disk, SimulatedDisk)
    disk.flip_bit(HOME / f"{0:020}.log", 70, 0)
    before = disk.contents()
    with pytest.raises(CorruptBatch, match="CRC"):
        filled.compact()
    assert disk.contents() == before


def appended(filled: Filled, payload: bytes, codec: Compression, records_count: int = 1) -> bytes:
    """A batch that nobody has looked into, with the right CRC."""
    base = filled.log.end_offset
    data = encode_batch(
        payload,
        base_offset=base,
        partition_leader_epoch=0,
        attributes=codec,
        last_offset_delta=records_count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=records_count,
    )
    filled.log.append(data, read_header(data), NOW)
    return data


@pytest.mark.parametrize(
    ("payload", "codec"),
    [
        (b"this is not gzip", Compression.GZIP),
        (b"these are no records", Compression.NONE),
        (b"", Compression.ZSTD),
        (compress(Compression.ZSTD, bytes(17 * 1024**2)), Compression.ZSTD),
    ],
    ids=["does not inflate", "is malformed", "is empty", "is too large"],
)
def test_a_batch_that_cannot_be_read_is_kept_as_it_is(
    filled: Filled, payload: bytes, codec: Compression
) -> None:
    filled.put((b"a", b"1"), (b"b", b"1"))
    kept = appended(filled, payload, codec)
    filled.put((b"a", b"2"))
    filled.log.roll()
    for _ in range(2):
        filled.compact()
        assert [data for _, data in batches(filled.log)][1] == kept
        assert [header.records_count for header, _ in batches(filled.log)] == [1, 1, 1]


def test_a_topic_that_takes_large_batches_is_compacted() -> None:
    size = RECORDS_BYTES_MAX // 2 + 1000
    filled = Filled(SimulatedDisk(), replace(LARGE, max_message_bytes=4 * size))
    filled.put((b"a", bytes(size)), (b"b", bytes(size)), codec=Compression.ZSTD)
    filled.put((b"a", b"2"))
    filled.log.roll()
    filled.compact()
    found = [(record.offset, record.key) for record in data_records(filled.log)]
    assert found == [(1, b"b"), (2, b"a")]


def test_tombstones_behind_which_nothing_can_be_read_stay(filled: Filled) -> None:
    """Their batch cannot be given a delete horizon."""
    # Attributes, times, key, no value, and five headers in no bytes.
    record = bytes((0, 0, 0, 2)) + b"a" + b"\x01\x0a"
    kept = appended(filled, bytes((len(record) << 1,)) + record, Compression.NONE)
    filled.put((b"b", b"1"))
    filled.log.roll()
    for later in range(3):
        filled.compact(NOW + later * RETENTION_MS)
        assert next(data for _, data in batches(filled.log)) == kept


def test_a_segment_that_is_gone_is_not_made_again(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.log.roll()
    planned = filled.plan()
    assert planned is not None
    filled.log.drop_before(1)
    with pytest.raises(FileNotFoundError):
        rewrite(filled.disk, HOME, planned, [], {})
    assert not filled.disk.exists(HOME / f"{0:020}.log")


def test_it_can_be_interrupted(filled: Filled) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    filled.put((b"a", b"1"))
    filled.log.roll()
    planned = filled.plan()
    assert planned is not None
    with pytest.raises(Stopped):
        rewrite(filled.disk, HOME, planned, [], {}, checkpoint=stop)


def test_a_draft_that_was_left_over_is_not_gone_on_with(filled: Filled) -> None:
    filled.put((b"a", b"1"))
    filled.put((b"a", b"2"))
    filled.log.roll()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        filled.disk.open(HOME / f"{0:020}{suffix}.cleaned").append(b"from another time")
    filled.compact()
    assert values(filled) == [(1, b"a", b"2")]
    assert len(batches(Segments.open(filled.disk, HOME, LARGE, recovery_point=0))) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_leaves_the_log_as_it_was(seed: int) -> None:
    disk = SimulatedDisk()
    filled = randomly_filled(Random(seed), disk)
    filled.log.flush()
    planned = filled.plan()
    assert planned is not None
    before, room = disk.contents(), 0
    while True:
        disk.capacity = disk.used + room
        try:
            # Little memory, so that digests have to be written, too.
            filled.rewrite(planned, memory_bytes=500)
            break
        except OSError:
            assert disk.contents() == before
            room += 37
    assert room > 300


@pytest.mark.parametrize("seed", range(10))
def test_little_memory_gives_the_same_bytes(seed: int) -> None:
    filled = randomly_filled(Random(seed), SimulatedDisk(), steps=60)
    planned = filled.plan()
    assert planned is not None
    found = []
    for memory_bytes in (10**6, 1, 700, 2000):
        disk = filled.disk.kill9()  # type: ignore[attr-defined]
        twin = dataclasses.replace(filled, disk=disk)
        found.append((twin.rewrite(planned, memory_bytes), disk.contents()))
    assert all(each == found[0] for each in found)
    assert found[0][0].rewritten


def test_many_keys_are_told_apart_by_digests() -> None:
    filled = Filled(SimulatedDisk(), LARGE)
    rng = Random(1)
    for _ in range(300):
        keys = [b"key-%d" % rng.randrange(2000) for _ in range(20)]
        filled.put(*((key, b"v") for key in keys))
    filled.log.roll()
    planned = filled.plan()
    assert planned is not None
    result = filled.rewrite(planned, memory_bytes=100_000)
    for each in result.rewritten:
        filled.log.swap_in(each.bases)
    assert data_records(filled.log) == filled.expected(planned.end_offset, NOW)


pairs = st.tuples(
    st.sampled_from([None, b"", b"a", b"b", b"c", b"d"]),
    st.sampled_from([None, b"", b"v" * 20, b"w" * 80]),
)
puts = st.tuples(
    st.just("put"),
    st.lists(pairs, min_size=1, max_size=4),
    st.sampled_from([-1, 1, 2, 3]),
    st.sampled_from(list(Compression)),
    st.sampled_from([0, 0, 0, 2]),
)
ends = st.tuples(
    st.just("end"), st.sampled_from([1, 2]), st.sampled_from(list(ControlType)), st.booleans()
)
rolls = st.just(("roll",))
compactions = st.tuples(st.just("compact"), st.sampled_from([0, 1, 500, 1000, 5000]))


@given(steps=st.lists(puts | puts | puts | ends | rolls | compactions, min_size=5, max_size=60))
@settings(deadline=None, max_examples=300)
def test_a_log_keeps_what_a_plain_list_says(steps: list[tuple[object, ...]]) -> None:
    filled, now_ms = Filled(SimulatedDisk()), NOW
    decided = [("end", 1, COMMIT, False), ("end", 2, ABORT, True), ("roll",)]
    for step in [*steps, *decided, ("compact", 0), ("compact", 10_000)]:
        match step:
            case ("put", list(records), int(producer), Compression() as codec, int(gap)):
                in_transaction = producer in (1, 2)
                filled.put(
                    *records, producer=producer, in_transaction=in_transaction, codec=codec, gap=gap
                )
            case ("end", int(producer), ControlType() as outcome, bool(new_epoch)):
                filled.end(producer, outcome, new_epoch=new_epoch)
            case ("roll",):
                filled.log.roll()
            case ("compact", int(later)):
                now_ms += later
                compact_and_check(filled, now_ms)
            case _:
                raise AssertionError(step)
    for _ in range(20):
        now_ms += RETENTION_MS
        result = filled.compact(now_ms)
        if not result.rewritten:
            break
    assert not result.rewritten, "there is always something to do"
    check_markers(filled, result.end_offset)


def compact_and_check(filled: Filled, now_ms: int) -> None:
    planned = filled.plan(now_ms)
    if planned is None:
        return
    filled.compact(now_ms)
    found = data_records(filled.log)
    assert found == filled.expected(planned.end_offset, now_ms)
    check_producers(filled)
    check_aborted(filled)
    everything = batches(filled.log)
    again = Segments.open(filled.disk.kill9(), HOME, CONFIG, recovery_point=0)  # type: ignore[attr-defined]
    assert again.dropped_bytes == 0
    assert batches(again) == everything, "segments meet, and what they hold is sound"
    filled.compact(now_ms)
    assert data_records(filled.log) == found, "a second time changes nothing"


def check_producers(filled: Filled) -> None:
    """Replaying what is left says the same of sequences, and of what is open: so no marker has
    gone before the last batch of its transaction."""
    after = replayed(filled.log)
    assert after.first_undecided_offset == filled.producers.first_undecided_offset
    for producer in filled.producers:
        if producer.batches:
            found = after.get(producer.producer_id)
            assert found is not None
            assert (found.epoch, found.last_sequence) == (producer.epoch, producer.last_sequence)
            assert found.last_data_offset == producer.last_data_offset
            assert found.current_txn_first_offset == producer.current_txn_first_offset


def check_aborted(filled: Filled) -> None:
    """Readers of what is committed are told of everything they have to skip."""
    entries = aborted_before(filled.log, filled.log.end_offset)
    left = {record.offset for record in data_records(filled.log)}
    for each in filled.sent:
        if each.transaction is None or each.record.offset not in left:
            continue
        if filled.outcomes.get(each.transaction) is ABORT:
            assert any(
                entry.first_offset == each.transaction and entry.last_offset > each.record.offset
                for entry in entries
            )


def check_markers(filled: Filled, end_offset: int) -> None:
    """What is left of markers, time having passed, has a batch of its transaction before it."""
    has_batch: set[int] = set()
    for header, _ in batches(filled.log):
        if header.next_offset > end_offset:
            break
        if not header.is_control and header.is_transactional:
            has_batch.add(header.producer_id)
        elif header.is_control and header.records_count:
            assert header.producer_id in has_batch
            has_batch.discard(header.producer_id)


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_anywhere_leaves_each_group_old_or_new(seed: int) -> None:
    assert crash_compaction(seed) > 200
