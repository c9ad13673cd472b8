"""What a batch must pass, and how it may change, before a leader appends it.

    one batch -> header -> CRC -> records, if need be -> rewritten, if need be -> size

- Records are not read, unless the topic asks for it (compaction, a limit on old times, another
  compression) or the header cannot be right. How many there are, or how large they are, does not
  matter: what is said of a topic is true of all its batches.
- What is read is judged as a whole: form, keys, times, and offsets that count from 0.
- A batch that is not rewritten stays where it is, in the frame that brought it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import INT64_MAX, LogConfig
from pyk.log.producers import NO_TIMESTAMP, Origin
from pyk.types import Buffer
from pyk.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    UnknownCompression,
    UnsupportedMagic,
    check_crc,
    iterate_batches,
    peek_header,
    read_header,
    stamp_append_time,
    stamp_create_time,
)
from pyk.wire.compression import BatchTooLarge, Compression, CorruptBatch
from pyk.wire.records import (
    RECORD_BYTES_MIN,
    recompress_batch,
    skim_records,
)

RECORDS_MAX: Final = 2**16
"""How many records of a batch are read, at a microsecond each. Where they must be, a batch of more
is too large, which Java's producer understands: it splits the batch."""

READ_AT_ONCE_RECORDS_MAX: Final = 200
READ_AT_ONCE_BYTES_MAX: Final = 4096
"""Batches up to here are read where they have come: that takes less time than to go elsewhere."""
INFLATED_AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""If they inflate to no more than this: a few bytes may hold many megabytes."""

RECORD_ERRORS_MAX: Final = 1000
"""How many records are blamed, each in a sentence of its own. Kafka has no limit, but a few
kilobytes are enough to hold thousands of records."""

_INT64_MIN: Final = -(2**63)
_ANY_TIME: Final = range(_INT64_MIN, INT64_MAX + 1)


class RecordError(NamedTuple):
    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """A refusal that tells which records are to blame, as Produce does since version 8."""

    def __init__(self, code: ErrorCode, record_errors: list[RecordError]) -> None:
        index, why = record_errors[0]
        others = f" (and {len(record_errors) - 1} more)" if len(record_errors) > 1 else ""
        super().__init__(code, f"record {index} of the batch{others}: {why}")
        self.record_errors = record_errors


class Prepared(Struct, frozen=True):
    """One batch, to be stamped with its offset and leader epoch and appended."""

    data: bytearray | memoryview
    header: BatchHeader
    """As it is in `data`."""
    append_time: int
    """The time that all records were given, or -1 if they keep their own."""


class TakesLong(Exception):
    """The records of a batch must be read or compressed anew, and that is better done elsewhere."""


def prepare(
    records: Buffer, config: LogConfig, now_ms: int, origin: Origin, *, may_take_long: bool = True
) -> Prepared:
    """The batch in `records` as the log should have it. Raise KafkaError, and TakesLong if it may
    not take long and would: then nothing has happened yet.

    It is changed in place where that can be done, so `records` are not to be used any more, not
    even if they are refused.
    """
    assert origin is not Origin.REPLICATION, "a follower has what its leader has"
    if origin is Origin.COORDINATOR:
        # It was made in this very process.
        header = peek_header(records)
        _check_size(header, config)
        is_to_be_read = False
    else:
        header = _read_one_batch(records)
        if header.base_offset != 0:
            raise _invalid(f"a producer does not know offsets, but came with {header.base_offset}")
        _check_size(header, config)
        _check_crc(records, header)
        _check_header(header, config)
        is_to_be_read = _must_be_read(header, config, now_ms)
    is_to_be_read = is_to_be_read or _has_wrong_compression(header, config)
    if is_to_be_read and not may_take_long and _takes_long(header):
        raise TakesLong
    data = _writable(records, header)
    if is_to_be_read:
        bytes_max = config.inflated_bytes_max
        if not may_take_long:
            bytes_max = min(bytes_max, INFLATED_AT_ONCE_BYTES_MAX)
        max_timestamp = _judge_records(data, header, config, now_ms, bytes_max)
        data, header = _rewrite(data, header, config, max_timestamp)
    append_time = NO_TIMESTAMP
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time = now_ms
        stamp_append_time(data, 0, now_ms)
        header = read_header(data)
    if header.size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {header.size} bytes does not fit a segment of {config.segment_bytes}",
        )
    return Prepared(data, header, append_time)


def _read_one_batch(records: Buffer) -> BatchHeader:
    try:
        if len(records) >= HEADER_BYTES:
            header = peek_header(records)
            if header.size == len(records):
                return header
        # Kafka ignores what may be the beginning of a second batch.
        batches = iterate_batches(records, torn_tail_allowed=True)
        first = next(batches, None)
        if first is None:
            raise _invalid(f"{len(records)} bytes are no batch")
        _, header = first
        if header.size != len(records) and next(batches, None) is not None:
            raise _invalid("more than one batch for a partition")
    except UnsupportedMagic as old:
        raise _invalid(str(old)) from None
    except UnknownCompression as unknown:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(unknown)) from None
    except CorruptBatch as broken:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(broken)) from None
    return header


def _check_size(header: BatchHeader, config: LogConfig) -> None:
    if header.size > config.max_message_bytes:
        raise _too_large(f"a batch of {header.size} bytes, of {config.max_message_bytes} allowed")


def _check_crc(records: Buffer, header: BatchHeader) -> None:
    try:
        check_crc(records, 0, header)
    except CorruptBatch as broken:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(broken)) from None


def _check_header(header: BatchHeader, config: LogConfig) -> None:
    """Raise KafkaError for what no client may write. Coordinators may, and replicas must."""
    count = header.records_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise _invalid(f"{count} records with a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        raise _invalid("control records are for brokers to write")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} came with sequence {header.base_sequence}")
    if (
        config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        and header.timestamp_type is TimestampType.LOG_APPEND_TIME
    ):
        why = "the time of appending is not for a producer to give"
        blamed = range(min(count, RECORD_ERRORS_MAX))
        errors = [RecordError(index, why) for index in blamed]
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, errors)


def _writable(records: Buffer, header: BatchHeader) -> bytearray | memoryview:
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        records = bytearray(records)
    return records if len(records) == header.size else memoryview(records)[: header.size]


def _must_be_read(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    if config.is_compacted:
        return True
    # Only a very regular batch has more records than compressed bytes. Or one that lies.
    room = header.size - HEADER_BYTES
    if header.compression is Compression.NONE:
        room //= RECORD_BYTES_MIN
    if header.records_count > room:
        return True
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return False
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return True
    if config.message_timestamp_before_max_ms != INT64_MAX:
        return True
    # Sarama left the greatest timestamp out until 2025, as others may.
    limit = now_ms + config.message_timestamp_after_max_ms
    return not 0 < header.base_timestamp <= header.max_timestamp <= limit


def _takes_long(header: BatchHeader) -> bool:
    return header.records_count > READ_AT_ONCE_RECORDS_MAX or header.size > READ_AT_ONCE_BYTES_MAX


def _has_wrong_compression(header: BatchHeader, config: LogConfig) -> bool:
    if config.compression_type is None or header.compression is config.compression_type:
        return False
    # Markers stay as their coordinator wrote them. They are too small to gain from it.
    return not (header.is_control and header.compression is Compression.NONE)


def _judge_records(
    data: Buffer, header: BatchHeader, config: LogConfig, now_ms: int, bytes_max: int
) -> int:
    """The latest of the records' own times, or -1. Raise KafkaError, and TakesLong if they cannot
    be read within fewer bytes than the topic allows."""
    try:
        skimmed = skim_records(data, 0, header, bytes_max=bytes_max)
        if header.records_count > RECORDS_MAX:
            raise _too_large(f"a batch of {header.records_count} records, of {RECORDS_MAX} allowed")
        return _max_timestamp(skimmed, header.base_timestamp, config, now_ms)
    except BatchTooLarge as large:
        if bytes_max < config.inflated_bytes_max:
            raise TakesLong from None
        raise _too_large(str(large)) from None
    except CorruptBatch as broken:
        if header.compression is Compression.SNAPPY and bytes_max < config.inflated_bytes_max:
            raise TakesLong from None  # How many blocks it may have depends on the bytes.
        # Not CORRUPT_MESSAGE, which asks for a retry: the CRC has shown that this is what was sent,
        # and what would be sent again.
        raise _invalid(str(broken)) from None


def _max_timestamp(
    skimmed: Iterator[tuple[int, int, int, int]],
    base_timestamp: int,
    config: LogConfig,
    now_ms: int,
) -> int:
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    is_compacted = config.is_compacted
    allowed = _allowed_times(config, now_ms)
    max_timestamp = NO_TIMESTAMP
    for index, (offset_delta, timestamp_delta, key_size, _) in enumerate(skimmed):
        if offset_delta != index:
            raise CorruptBatch(f"record {index} has an offset delta of {offset_delta}")
        timestamp = base_timestamp + timestamp_delta
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if is_compacted and key_size < 0:
            errors.append(RecordError(index, "a compacted topic takes no record without a key"))
        elif timestamp not in allowed and timestamp != NO_TIMESTAMP:
            code = ErrorCode.INVALID_TIMESTAMP
            why = f"its timestamp {timestamp} is not from {allowed[0]} to {allowed[-1]}"
            errors.append(RecordError(index, why))
    if errors:
        raise InvalidRecords(code, errors[:RECORD_ERRORS_MAX])
    return max_timestamp


def _allowed_times(config: LogConfig, now_ms: int) -> range:
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return _ANY_TIME
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return range(earliest, min(latest, INT64_MAX) + 1)


def _rewrite(
    data: bytearray | memoryview, header: BatchHeader, config: LogConfig, max_timestamp: int
) -> tuple[bytearray | memoryview, BatchHeader]:
    """The batch, compressed as the topic wants it and with the right time, and its header."""
    target = config.compression_type
    if target is not None and _has_wrong_compression(header, config):
        level, bytes_max = _level(config, target), config.inflated_bytes_max
        data = bytearray(recompress_batch(data, 0, header, target, level, bytes_max=bytes_max))
        header = read_header(data)
        _check_size(header, config)
    if config.message_timestamp_type is TimestampType.CREATE_TIME and (
        header.max_timestamp != max_timestamp
        or header.timestamp_type is TimestampType.LOG_APPEND_TIME
    ):
        stamp_create_time(data, 0, max_timestamp)
        header = read_header(data)
    return data, header


def _level(config: LogConfig, compression: Compression) -> int | None:
    match compression:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, why)


def _too_large(why: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)
