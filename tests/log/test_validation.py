"""What a leader makes of a batch before it appends it. Kafka's opinion is in compat_tests."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import INT64_MAX, CleanupPolicy, LogConfig
from pyk.log.producers import Origin
from pyk.log.validation import (
    RECORD_ERRORS_MAX,
    RECORDS_MAX,
    InvalidRecords,
    Prepared,
    RecordError,
    prepare,
)
from pyk.types import Buffer
from pyk.wire.batch import (
    HEADER_BYTES,
    TimestampType,
    check_crc,
    encode_batch,
    read_header,
    stamp_offset,
)
from pyk.wire.compression import Compression, compress
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import RECORDS_BYTES_MAX, Record, build_batch, read_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32

PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
APPEND_TIME = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
LAST_HOUR = LogConfig(message_timestamp_before_max_ms=HOUR)

compressions = pytest.mark.parametrize("compression", Compression)


def record(index: int = 0, timestamp: int = NOW, key: bytes | None = b"key") -> Record:
    return Record(index, timestamp, key, b"value")


def batch(
    *timestamps: int,
    compression: Compression = Compression.NONE,
    keys: tuple[bytes | None, ...] = (),
) -> bytes:
    """A batch of one record for each timestamp; of three that are from now, if there is none."""
    times = timestamps or (NOW, NOW, NOW)
    keyed = keys or (b"key",) * len(times)
    records = [record(i, time, key) for i, (time, key) in enumerate(zip(times, keyed, strict=True))]
    return build_batch(records, compression=compression)


def changed(data: bytes, payload: bytes | None = None, /, **fields: int) -> bytes:
    """The batch with other fields in its header, and the CRC that belongs to them."""
    header = msgspec.structs.asdict(read_header(data)) | fields
    for name in ("batch_length", "magic", "crc"):
        del header[name]
    return encode_batch(data[HEADER_BYTES:] if payload is None else payload, **header)


def prepared(
    data: Buffer, config: LogConfig = PLAIN, origin: Origin = Origin.CLIENT, now: int = NOW
) -> Prepared:
    """What comes back, which is a batch in any case, and as its header says."""
    found = prepare(data, config, now, origin)
    assert len(found.data) == found.header.size
    assert read_header(found.data) == found.header
    check_crc(found.data, 0, found.header)
    return found


def refusal(data: Buffer, config: LogConfig = PLAIN, origin: Origin = Origin.CLIENT) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        prepare(data, config, NOW, origin)
    assert caught.value.message
    return caught.value


def blamed(data: Buffer, config: LogConfig) -> tuple[ErrorCode, list[int]]:
    refused = refusal(data, config)
    assert isinstance(refused, InvalidRecords)
    return refused.code, [error.batch_index for error in refused.record_errors]


def test_a_batch_is_taken_as_it_came() -> None:
    frame = bytearray(b"request" + batch())
    view = memoryview(frame)[7:]
    found = prepared(view)
    assert found.data is view
    assert found.append_time == -1
    stamp_offset(found.data, 0, 1_000, 5)
    assert read_header(frame, 7).base_offset == 1_000


@pytest.mark.parametrize("read_only", [bytes, lambda data: memoryview(bytes(data))])
def test_a_batch_that_cannot_be_stamped_is_copied(read_only: type[bytes]) -> None:
    data = read_only(batch())
    found = prepared(data)
    stamp_offset(found.data, 0, 1_000, 5)
    assert read_header(data).base_offset == 0


def test_records_are_not_read_where_nothing_asks_for_it() -> None:
    unreadable = changed(batch(), b"no record, but long enough for three")
    assert bytes(prepared(unreadable).data) == unreadable


def test_there_is_exactly_one_batch() -> None:
    for data in (b"", b"short", batch()[:-1], batch()[:40], batch() + batch(), batch() * 100):
        assert refusal(data).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rest", [b"x", batch()[:30], batch()[:-1]])
def test_the_beginning_of_a_second_batch_is_cut_off_as_kafka_does(rest: bytes) -> None:
    assert bytes(prepared(bytearray(batch() + rest)).data) == batch()
    assert bytes(prepared(batch() + rest).data) == batch()


def test_old_formats_are_refused() -> None:
    for magic in (b"\0", b"\1"):
        assert refusal(batch()[:16] + magic + batch()[17:]).code is ErrorCode.INVALID_RECORD


def test_what_is_no_batch_is_corrupt() -> None:
    unknown_magic = batch()[:16] + b"\3" + batch()[17:]
    shorter_than_a_header = batch()[:8] + b"\0\0\0\x30" + batch()[12:]
    wrong_crc = batch()[:-1] + b"?"
    for data in (unknown_magic, shorter_than_a_header, wrong_crc, batch() + unknown_magic):
        assert refusal(data).code is ErrorCode.CORRUPT_MESSAGE


def test_a_compression_nobody_knows_is_unsupported() -> None:
    refused = refusal(changed(batch(), attributes=5))
    assert refused.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 5},
        {"base_offset": -1},
        {"last_offset_delta": 1},
        {"last_offset_delta": 3},
        {"records_count": 4},
        {"records_count": 0, "last_offset_delta": -1},
        {"records_count": -1, "last_offset_delta": -2},
        {"records_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"attributes": CONTROL},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -5},
    ],
    ids=str,
)
def test_a_header_that_no_client_may_write_is_refused(fields: dict[str, int]) -> None:
    assert refusal(changed(batch(), **fields)).code is ErrorCode.INVALID_RECORD


def test_an_idempotent_batch_needs_a_sequence_and_others_need_nothing() -> None:
    prepared(changed(batch(), producer_id=7, producer_epoch=0, base_sequence=0))
    prepared(changed(batch(), producer_id=-1, producer_epoch=3, base_sequence=-9))


def test_coordinators_write_markers_and_no_sequences() -> None:
    key, value = encode_end_marker(ControlType.COMMIT, 6)
    marker = build_batch(
        [Record(0, NOW, key, value)],
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    compressed = replace(COMPACTED, compression_type=Compression.GZIP)
    for config in (PLAIN, compressed):
        assert bytes(prepared(marker, config, Origin.COORDINATOR).data) == marker
        assert refusal(marker, config).code is ErrorCode.INVALID_RECORD


def test_what_a_follower_copies_is_not_for_it_to_judge() -> None:
    with pytest.raises(AssertionError, match="follower"):
        prepare(batch(), PLAIN, NOW, Origin.REPLICATION)


def test_a_batch_may_be_as_large_as_the_topic_allows() -> None:
    size = len(batch())
    prepared(batch(), LogConfig(max_message_bytes=size))
    refused = refusal(batch(), LogConfig(max_message_bytes=size - 1))
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_may_be_as_large_as_a_segment() -> None:
    size = len(batch())
    prepared(batch(), LogConfig(segment_bytes=size))
    refused = refusal(batch(), LogConfig(segment_bytes=size - 1))
    assert refused.code is ErrorCode.RECORD_LIST_TOO_LARGE


@compressions
def test_a_compacted_topic_takes_no_record_without_a_key(compression: Compression) -> None:
    prepared(batch(NOW, compression=compression, keys=(b"",)), COMPACTED)
    keyless = batch(NOW, NOW, NOW, compression=compression, keys=(None, b"key", None))
    assert blamed(keyless, COMPACTED) == (ErrorCode.INVALID_RECORD, [0, 2])
    prepared(keyless, PLAIN)


def test_a_wrong_time_outweighs_a_missing_key() -> None:
    data = batch(NOW, NOW + 2 * HOUR, keys=(None, b"key"))
    assert blamed(data, COMPACTED) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


@compressions
def test_records_from_the_future_are_refused(compression: Compression) -> None:
    data = batch(NOW + HOUR, NOW + HOUR + 1, NOW, NOW + 9 * HOUR, compression=compression)
    assert blamed(data, PLAIN) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])
    prepared(batch(NOW + HOUR, NOW, compression=compression))


def test_records_from_the_past_are_refused_where_the_topic_says_so() -> None:
    data = batch(NOW, NOW - HOUR, NOW - HOUR - 1)
    assert blamed(data, LAST_HOUR) == (ErrorCode.INVALID_TIMESTAMP, [2])
    assert bytes(prepared(data).data) == data


def test_what_has_no_time_is_never_too_old() -> None:
    assert prepared(batch(-1, -1), LAST_HOUR).header.max_timestamp == -1


@compressions
@pytest.mark.parametrize(
    "times",
    [
        {"max_timestamp": -1},
        {"max_timestamp": 0},
        {"max_timestamp": NOW - 9},
        {"max_timestamp": NOW + 2 * HOUR},
        {"max_timestamp": INT64_MAX},
    ],
    ids=str,
)
def test_a_greatest_timestamp_that_cannot_be_right_is_put_right(
    times: dict[str, int], compression: Compression
) -> None:
    right = batch(NOW - 5, NOW, NOW - 10, compression=compression)
    assert bytes(prepared(changed(right, None, **times)).data) == right


def test_times_are_found_though_the_header_has_none() -> None:
    """A client may leave both of them out and write every time as a delta."""
    payload = build_batch([record(0, NOW), record(1, NOW + 7)], delete_horizon=0)[HEADER_BYTES:]
    data = changed(batch(0, 0), payload)
    assert prepared(data).header.max_timestamp == NOW + 7


def test_times_before_1970_count_as_none() -> None:
    assert prepared(batch(-77, -78)).header.max_timestamp == -1


def test_a_time_beyond_64_bits_is_refused() -> None:
    boundless = LogConfig(message_timestamp_after_max_ms=INT64_MAX)
    data = changed(batch(0, 1, 2), base_timestamp=INT64_MAX - 1)
    assert blamed(data, boundless) == (ErrorCode.INVALID_TIMESTAMP, [2])


@compressions
def test_the_append_time_replaces_all_others(compression: Compression) -> None:
    frame = bytearray(batch(5, NOW + 9 * HOUR, -1, compression=compression))
    found = prepared(frame, APPEND_TIME, now=NOW + 1)
    assert found.data is frame
    assert found.append_time == found.header.max_timestamp == NOW + 1
    assert {record.timestamp for record in read_records(found.data)} == {NOW + 1}


def test_the_append_time_is_not_for_producers_to_give() -> None:
    claim = changed(batch(), attributes=LOG_APPEND_TIME)
    assert blamed(claim, APPEND_TIME) == (ErrorCode.INVALID_TIMESTAMP, [0, 1, 2])
    assert bytes(prepared(claim).data) == batch()


@compressions
@pytest.mark.parametrize("target", Compression)
def test_batches_are_compressed_as_the_topic_wants_it(
    target: Compression, compression: Compression
) -> None:
    data = changed(
        batch(NOW - 5, NOW, compression=compression),
        producer_id=7,
        producer_epoch=1,
        base_sequence=40,
        max_timestamp=-1,
        attributes=compression | TRANSACTIONAL,
    )
    found = prepared(data, LogConfig(compression_type=target))
    assert found.header.compression is target
    assert list(read_records(found.data)) == list(read_records(data))
    header = found.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
    assert (header.base_timestamp, header.max_timestamp) == (NOW - 5, NOW)
    assert header.is_transactional


def test_the_right_compression_stays_as_it_is() -> None:
    data = bytearray(batch(compression=Compression.LZ4))
    assert prepared(data, LogConfig(compression_type=Compression.LZ4)).data is data


def test_compression_takes_the_level_of_the_topic() -> None:
    data = build_batch([Record(0, NOW, None, bytes(range(256)) * 99)])
    weak = LogConfig(
        compression_type=Compression.GZIP,
        compression_gzip_level=1,
        compression_lz4_level=1,
        compression_zstd_level=1,
    )
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        found = prepared(data, replace(weak, compression_type=codec))
        assert bytes(found.data[HEADER_BYTES:]) == compress(codec, data[HEADER_BYTES:], 1)


def test_a_batch_may_become_too_large_by_inflating() -> None:
    data = build_batch([Record(0, NOW, None, bytes(9_999))], compression=Compression.GZIP)
    config = LogConfig(compression_type=Compression.NONE, max_message_bytes=9_999)
    assert refusal(data, config).code is ErrorCode.MESSAGE_TOO_LARGE


@compressions
def test_records_that_are_read_must_be_records(compression: Compression) -> None:
    payload = compress(compression, batch()[HEADER_BYTES:-1])
    torn = changed(batch(), payload, attributes=compression)
    assert refusal(torn, COMPACTED).code is ErrorCode.INVALID_RECORD
    rubbish = changed(batch(), b"neither records nor compressed", attributes=compression)
    assert refusal(rubbish, COMPACTED).code is ErrorCode.INVALID_RECORD


@compressions
def test_records_that_are_read_count_from_offset_0(compression: Compression) -> None:
    gap = build_batch([record(0), record(2)], compression=compression)
    closed = changed(gap, last_offset_delta=1)
    assert refusal(closed, COMPACTED).code is ErrorCode.INVALID_RECORD


@compressions
def test_more_records_than_there_is_room_for_are_found_out(compression: Compression) -> None:
    data = changed(batch(compression=compression), records_count=900, last_offset_delta=899)
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_very_regular_records_have_little_room_and_are_fine() -> None:
    data = build_batch([record(i) for i in range(9_999)], compression=Compression.ZSTD)
    regular = build_batch(
        [Record(i, NOW, b"", b"") for i in range(100)], compression=Compression.ZSTD
    )
    for each in (data, regular):
        assert bytes(prepared(each).data) == each


def test_batches_of_very_many_records_are_taken_if_nobody_must_read_them() -> None:
    data = build_batch([record(i) for i in range(RECORDS_MAX + 1)])
    roomy = replace(PLAIN, max_message_bytes=len(data))
    assert bytes(prepared(data, roomy).data) == data
    compacted = replace(COMPACTED, max_message_bytes=len(data))
    assert refusal(data, compacted).code is ErrorCode.MESSAGE_TOO_LARGE


def test_records_are_inflated_to_a_bound() -> None:
    large = [Record(0, NOW, b"key", bytes(RECORDS_BYTES_MAX))]
    data = build_batch(large, compression=Compression.ZSTD)
    assert bytes(prepared(data).data) == data
    assert refusal(data, COMPACTED).code is ErrorCode.MESSAGE_TOO_LARGE
    prepared(data, replace(COMPACTED, max_message_bytes=2 * RECORDS_BYTES_MAX))


def test_not_more_records_are_blamed_than_fit_an_answer() -> None:
    count = RECORD_ERRORS_MAX + 1
    keyless = batch(*[NOW] * count, keys=(None,) * count)
    claim = changed(batch(*[NOW] * count), attributes=LOG_APPEND_TIME)
    for data, config in ((keyless, COMPACTED), (claim, APPEND_TIME)):
        assert blamed(data, config)[1] == list(range(RECORD_ERRORS_MAX))


def test_a_refusal_says_which_record_and_why() -> None:
    refused = refusal(batch(NOW, NOW, keys=(b"", None)), COMPACTED)
    assert isinstance(refused, InvalidRecords)
    why = "a compacted topic takes no record without a key"
    assert refused.record_errors == [RecordError(1, why)]
    assert refused.message == f"record 1 of the batch: {why}"
    several = refusal(batch(NOW, NOW, keys=(None, None)), COMPACTED)
    assert several.message == f"record 0 of the batch (and 1 more): {why}"


TIMES = st.integers(NOW - 2 * HOUR, NOW + HOUR) | st.just(-1)
CONFIGS = st.builds(
    LogConfig,
    compression_type=st.none() | st.sampled_from(list(Compression)),
    message_timestamp_type=st.sampled_from(list(TimestampType)),
    cleanup_policy=st.sets(st.sampled_from(list(CleanupPolicy))).map(frozenset),
)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMES, st.binary(max_size=9), st.none() | st.binary(max_size=99)),
    min_size=1,
    max_size=9,
)


@given(records=RECORDS, compression=st.sampled_from(list(Compression)), config=CONFIGS)
@settings(deadline=None)
def test_whatever_is_prepared_holds_the_same_records(
    records: list[Record], compression: Compression, config: LogConfig
) -> None:
    sent = [msgspec.structs.replace(record, offset=i) for i, record in enumerate(records)]
    found = prepared(build_batch(sent, compression=compression), config)
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        sent = [msgspec.structs.replace(record, timestamp=NOW) for record in sent]
    assert list(read_records(found.data)) == sent
    assert found.header.max_timestamp == max(record.timestamp for record in sent)
    assert found.header.timestamp_type is config.message_timestamp_type
    target = config.compression_type
    assert found.header.compression is (compression if target is None else target)


@given(
    changes=st.lists(st.tuples(st.integers(0, 120), st.binary(min_size=1, max_size=4)), max_size=3),
    fields=st.dictionaries(
        st.sampled_from(
            ("attributes", "last_offset_delta", "producer_epoch", "base_sequence", "records_count")
        )
        | st.sampled_from(("base_timestamp", "max_timestamp", "producer_id")),
        st.integers(-3, 130),
    ),
    compression=st.sampled_from(list(Compression)),
    config=CONFIGS,
)
@settings(deadline=None, max_examples=500)
def test_any_bytes_are_prepared_or_refused(
    changes: list[tuple[int, bytes]],
    fields: dict[str, int],
    compression: Compression,
    config: LogConfig,
) -> None:
    payload = bytearray(batch(compression=compression)[HEADER_BYTES:])
    for position, replacement in changes:
        payload[position : position + len(replacement)] = replacement
    with suppress(KafkaError):
        prepared(changed(batch(compression=compression), bytes(payload), **fields), config)
    damaged = bytearray(batch(compression=compression))
    for position, replacement in changes:
        damaged[position : position + len(replacement)] = replacement
    with suppress(KafkaError):
        prepared(damaged, config)
