"""The same batches sent to Kafka, and prepared by pyk: both refuse alike, or store the same bytes.

What differs is listed with its reason, and must differ still.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.kafka.server import kafka_server
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.producers import Origin
from pyk.log.validation import InvalidRecords, Prepared, prepare
from pyk.wire.apis import ApiKey
from pyk.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    check_crc,
    encode_batch,
    read_header,
    stamp_offset,
)
from pyk.wire.compression import Compression, compress
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from pyk.wire.records import Record, build_batch, read_records
from pyk.wire.request import decode_response, encode_request

Address = tuple[str, int]

NOW = int(time.time() * 1000)
HOUR, DAY = 3_600_000, 86_400_000
LOG_APPEND_TIME, CONTROL, DELETE_HORIZON = 8, 32, 64
PRODUCE_VERSION, FETCH_VERSION = 9, 11
ALL_ACK = -1
GZIP, SNAPPY, LZ4, ZSTD = Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD

TOPICS = {
    "plain": LogConfig(),
    "compacted": LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT})),
    "append-time": LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    "hour": LogConfig(
        message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=2 * HOUR
    ),
    "gzip": LogConfig(compression_type=GZIP),
    "snappy": LogConfig(compression_type=SNAPPY),
    "lz4": LogConfig(compression_type=LZ4),
    "zstd": LogConfig(compression_type=ZSTD),
    "uncompressed": LogConfig(compression_type=Compression.NONE),
    "small": LogConfig(max_message_bytes=500, compression_type=Compression.NONE),
    "segmented": LogConfig(segment_bytes=2**20, max_message_bytes=2**22),
    "append-time-gzip": LogConfig(
        message_timestamp_type=TimestampType.LOG_APPEND_TIME, compression_type=GZIP
    ),
    "append-time-compacted": LogConfig(
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    ),
}


class Outcome(NamedTuple):
    code: ErrorCode
    blamed: tuple[int, ...] = ()
    max_timestamp: int | None = None
    """Of what was stored."""


class Case(NamedTuple):
    topic: str
    data: bytes


class Difference(NamedTuple):
    topic: str
    data: bytes
    kafka: Outcome
    pyk: Outcome


def record(index: int, timestamp: int = NOW, key: bytes | None = b"k", size: int = 9) -> Record:
    return Record(index, timestamp, key, b"v" * size, (("header", None),))


def batch(*timestamps: int, size: int = 9, **options: Any) -> bytes:
    """A batch of one record for each timestamp; of three that are from now, if there is none."""
    times = timestamps or (NOW, NOW, NOW)
    return build_batch([record(i, time, size=size) for i, time in enumerate(times)], **options)


def keyless(*timestamps: int, **options: Any) -> bytes:
    """A first record with a key, and one without for each timestamp."""
    rest = [record(i, time, None) for i, time in enumerate(timestamps, 1)]
    return build_batch([record(0), *rest], **options)


def changed(data: bytes, payload: bytes | None = None, /, **fields: int) -> bytes:
    """The batch with other fields in its header, and the CRC that belongs to them."""
    header = msgspec.structs.asdict(read_header(data)) | fields
    for name in ("batch_length", "magic", "crc"):
        del header[name]
    return encode_batch(data[HEADER_BYTES:] if payload is None else payload, **header)


def counted(count: int, data: bytes | None = None) -> bytes:
    return changed(data or batch(), records_count=count, last_offset_delta=count - 1)


def poked(at: int, value: bytes, data: bytes | None = None) -> bytes:
    """The batch with other bytes somewhere and its old CRC."""
    data = data or batch()
    return data[:at] + value + data[at + len(value) :]


def with_offsets(*offsets: int, **options: Any) -> bytes:
    records = [record(offset) for offset in offsets]
    last_offset = len(offsets) - 1
    return changed(build_batch(records, **options), last_offset_delta=last_offset)


def of_one_record(payload: bytes, compression: Compression = Compression.NONE) -> bytes:
    return changed(batch(NOW), compress(compression, payload), attributes=compression)


def idempotent(producer_id: int, sequence: int, epoch: int = 0, **fields: int) -> bytes:
    return changed(
        batch(), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields
    )


FRAMING = {
    "nothing": Case("plain", b""),
    "less than a batch": Case("plain", b"x"),
    "less than a header": Case("plain", batch()[:60]),
    "all but a byte": Case("plain", batch()[:-1]),
    "two": Case("plain", batch() + batch()),
    "a byte more": Case("plain", batch() + b"x"),
    "part of another": Case("plain", batch() + batch()[:50]),
    "all but a byte of another": Case("plain", batch() + batch()[:-1]),
    "rubbish after it": Case("plain", batch() + b"x" * 100),
    "magic 0": Case("plain", poked(16, b"\0")),
    "magic 1": Case("plain", poked(16, b"\1")),
    "magic 3": Case("plain", poked(16, b"\3")),
    "magic -1": Case("plain", poked(16, b"\xff")),
    "a length of -1": Case("plain", poked(8, b"\xff" * 4)),
    "a length of 0": Case("plain", poked(8, b"\0" * 4)),
    "a length of less than a header": Case("plain", poked(8, b"\0\0\0\x30")),
    "a wrong CRC": Case("plain", poked(70, b"?")),
    "a wrong CRC and an offset": Case("plain", poked(70, b"?", poked(7, b"\5"))),
    "too large": Case("small", batch(size=600)),
    "too large and a wrong CRC": Case("small", poked(90, b"?", batch(size=600))),
    "too large and a wrong count": Case("small", counted(1, batch(size=600))),
    "too large and an offset": Case("small", changed(batch(size=600), base_offset=5)),
    "not too large": Case("small", batch(NOW, size=418)),
    "too large for a segment": Case("segmented", batch(NOW, size=2**20)),
    "too large for a segment and a wrong count": Case(
        "segmented", changed(batch(size=2**20), last_offset_delta=7)
    ),
    "too large for a segment and from the future": Case("segmented", batch(NOW + DAY, size=2**20)),
}
HEADERS = {
    "good": Case("plain", batch()),
    "a base offset": Case("plain", changed(batch(), base_offset=5)),
    "a negative base offset": Case("plain", changed(batch(), base_offset=-1)),
    "a leader epoch": Case("plain", changed(batch(), partition_leader_epoch=7)),
    "last offset too small": Case("plain", changed(batch(), last_offset_delta=1)),
    "last offset too large": Case("plain", changed(batch(), last_offset_delta=5)),
    "negative last offset": Case("plain", changed(batch(), last_offset_delta=-1)),
    "no records": Case("plain", changed(batch(), b"", records_count=0, last_offset_delta=-1)),
    "no records but offsets": Case("plain", changed(batch(), b"", records_count=0)),
    "a negative count": Case("plain", counted(-1)),
    "a count beyond reason": Case("plain", counted(2**31 - 1)),
    "a count beyond the room": Case("plain", counted(20)),
    "a compressed count beyond the room": Case("plain", counted(100, batch(compression=GZIP))),
    "control": Case("plain", changed(batch(), attributes=CONTROL)),
    "a delete horizon": Case("plain", changed(batch(), attributes=DELETE_HORIZON)),
    "bits that mean nothing": Case("plain", changed(batch(), attributes=128)),
    "more bits that mean nothing": Case("plain", changed(batch(), attributes=-(2**15))),
    "idempotent": Case("plain", idempotent(5_000, 0)),
    "idempotent without a sequence": Case("plain", idempotent(5_001, -1)),
    "idempotent with a negative sequence": Case("plain", idempotent(5_001, -5)),
    "idempotent without an epoch": Case("plain", idempotent(5_002, 0, -1)),
    "idempotent control": Case("plain", idempotent(5_001, -1, attributes=CONTROL)),
    "epoch and sequence of nobody": Case("plain", idempotent(-1, 7, 3)),
    "a producer id of -2": Case("plain", idempotent(-2, -1)),
}
TIMES = {
    "no greatest time": Case("plain", changed(batch(NOW, NOW + 5, NOW - 5), max_timestamp=-1)),
    "a greatest time of 0": Case("plain", changed(batch(), max_timestamp=0)),
    "a negative greatest time": Case("plain", changed(batch(), max_timestamp=-77)),
    "a greatest time below the first": Case("plain", changed(batch(), max_timestamp=NOW - 5)),
    "a greatest time in the future": Case("plain", changed(batch(), max_timestamp=NOW + DAY)),
    "compressed, no greatest time": Case(
        "plain", changed(batch(NOW, NOW + 5, compression=ZSTD), max_timestamp=-1)
    ),
    "compacted, no greatest time": Case("compacted", changed(batch(), max_timestamp=-1)),
    "no times": Case("plain", batch(-1, -1)),
    "no times but a greatest": Case("plain", changed(batch(-1, -1), max_timestamp=NOW)),
    "no first time": Case("plain", batch(-1, NOW)),
    "before 1970": Case("plain", batch(-77, -78)),
    "before and in 1970": Case("plain", batch(-77, 0, 5)),
    "from the future": Case("plain", batch(NOW, NOW + DAY, NOW, NOW + 2 * DAY)),
    "compressed, from the future": Case("plain", batch(NOW, NOW + DAY, compression=LZ4)),
    "the last time there is": Case("plain", batch(2**63 - 1)),
    "the first time there is": Case("plain", batch(-(2**63))),
    "a time beyond 64 bits": Case("plain", changed(batch(0, 1), base_timestamp=2**63 - 1)),
    "within the hour": Case("hour", batch(NOW, NOW - 9)),
    "later than allowed": Case("hour", batch(NOW, NOW + DAY)),
    "earlier than allowed": Case("hour", batch(NOW - DAY, NOW, NOW - 2 * DAY)),
    "earlier, behind a good first": Case("hour", batch(NOW, NOW - DAY)),
    "no times where they are limited": Case("hour", batch(-1, -1)),
    "a first time that is no record's": Case(
        "hour", changed(build_batch([record(0)], delete_horizon=5), attributes=0)
    ),
    "append time claimed": Case("plain", changed(batch(), attributes=LOG_APPEND_TIME)),
    "append time": Case("append-time", batch()),
    "append time, compressed": Case("append-time", batch(compression=SNAPPY)),
    "append time of what has no time": Case("append-time", batch(-1, -1)),
    "append time of what is from the future": Case("append-time", batch(NOW + DAY)),
    "append time and a horizon": Case("append-time", changed(batch(), attributes=DELETE_HORIZON)),
    "append time, claimed": Case("append-time", changed(batch(), attributes=LOG_APPEND_TIME)),
}
CONTENTS = {
    "keys": Case("compacted", batch()),
    "an empty key": Case("compacted", build_batch([record(0, key=b"")])),
    "no keys": Case("compacted", keyless(NOW, NOW)),
    "no keys, compressed": Case("compacted", keyless(NOW, NOW, NOW, NOW, compression=GZIP)),
    "a key missing and a time wrong": Case("compacted", keyless(NOW, NOW + DAY)),
    "a good key and a time wrong": Case("compacted", batch(NOW, NOW + DAY)),
    "no keys, append time": Case("append-time-compacted", keyless(NOW)),
    "no keys, append time claimed": Case(
        "append-time-compacted", changed(keyless(NOW), attributes=LOG_APPEND_TIME)
    ),
    "a record too few": Case("compacted", counted(4)),
    "a record too many": Case("compacted", counted(2)),
    "a compressed record too few": Case("compacted", counted(4, batch(compression=GZIP))),
    "a compressed record too many": Case("compacted", counted(2, batch(compression=GZIP))),
    "a torn record": Case("compacted", of_one_record(b"\x20abc\0\0\0\0")),
    "a torn record, compressed": Case("compacted", of_one_record(b"\x20abc\0\0\0\0", GZIP)),
    "a record of negative length": Case("compacted", of_one_record(b"\x01abc\0\0\0\0")),
    "a value beyond its record": Case("compacted", of_one_record(b"\x10\0\0\0\2k\x40v\0")),
    "a negative number of headers": Case("compacted", of_one_record(b"\x0e\0\0\0\2k\0\1")),
    "a header without a key": Case("compacted", of_one_record(b"\x12\0\0\0\2k\0\2\1\0")),
    "a record with attributes": Case("compacted", of_one_record(b"\x0e\1\0\0\2k\0\0")),
    "bytes after gzip": Case(
        "compacted", changed(batch(compression=GZIP), batch(compression=GZIP)[61:] + b"xx")
    ),
}
COMPRESSIONS = {
    f"{source.name} to {target}": Case(target, batch(NOW, NOW + 5, NOW - 5, compression=source))
    for source in Compression
    for target in ("plain", "gzip", "snappy", "lz4", "zstd", "uncompressed", "append-time-gzip")
} | {
    "recompressed, no greatest time": Case("gzip", changed(batch(), max_timestamp=-1)),
    "recompressed, a horizon": Case("gzip", changed(batch(), attributes=DELETE_HORIZON)),
    "recompressed, append time claimed": Case("gzip", changed(batch(), attributes=LOG_APPEND_TIME)),
    "recompressed, idempotent": Case("zstd", idempotent(5_003, 70)),
    "recompressed, control": Case("gzip", changed(batch(), attributes=CONTROL)),
    "recompressed, from the future": Case("gzip", batch(NOW, NOW + DAY)),
    "recompressed, no times": Case("gzip", batch(-1, -1)),
    "recompressed, append time, claimed": Case(
        "append-time-gzip", changed(batch(), attributes=LOG_APPEND_TIME)
    ),
    "inflated, too large": Case("small", batch(size=6_000, compression=GZIP)),
}
CASES = FRAMING | HEADERS | TIMES | CONTENTS | COMPRESSIONS

STORED = Outcome(ErrorCode.NONE, (), NOW)
FAILED = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)
INVALID = Outcome(ErrorCode.INVALID_RECORD)
CORRUPT = Outcome(ErrorCode.CORRUPT_MESSAGE)
LARGE = Outcome(ErrorCode.MESSAGE_TOO_LARGE)
RUBBISH = b"neither records nor compressed"

NOT_READ = {
    # Records are opaque where neither topic nor header asks for them to be read.
    "a record too few": Difference("plain", counted(4), INVALID, STORED),
    "a record too many": Difference("plain", counted(2), INVALID, STORED),
    "no records at all": Difference("plain", changed(batch(), RUBBISH), INVALID, STORED),
    "nothing compressed": Difference(
        "plain", changed(batch(), RUBBISH, attributes=GZIP), FAILED, STORED
    ),
    "compressed offsets that leave gaps": Difference(
        "plain", with_offsets(0, 2, 4, compression=GZIP), FAILED, STORED
    ),
    "a greatest time that is a little late": Difference(
        "plain",
        changed(batch(), max_timestamp=NOW + 5),
        STORED,
        Outcome(ErrorCode.NONE, (), NOW + 5),
    ),
    "a later time than the greatest": Difference(
        "plain",
        changed(batch(NOW, NOW + 2 * DAY), max_timestamp=NOW),
        Outcome(ErrorCode.INVALID_TIMESTAMP, (1,)),
        STORED,
    ),
}
ACCIDENTS = {
    # Kafka does not foresee these: an exception of its own becomes the answer. pyk's says what is
    # wrong, and does not ask for a retry.
    "an unknown compression": Difference(
        "plain",
        changed(batch(), attributes=5),
        FAILED,
        Outcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ),
    "no gzip": Difference("compacted", changed(batch(), RUBBISH, attributes=GZIP), FAILED, INVALID),
    "no snappy": Difference(
        "compacted", changed(batch(), RUBBISH, attributes=SNAPPY), FAILED, INVALID
    ),
    "no lz4": Difference("compacted", changed(batch(), RUBBISH, attributes=LZ4), FAILED, INVALID),
    "no zstd": Difference("compacted", changed(batch(), RUBBISH, attributes=ZSTD), FAILED, INVALID),
    "torn gzip": Difference(
        "compacted",
        changed(batch(), batch(compression=GZIP)[61:-9], attributes=GZIP),
        FAILED,
        INVALID,
    ),
    "compressed offsets that are read and leave gaps": Difference(
        "compacted", with_offsets(0, 2, 4, compression=GZIP), FAILED, INVALID
    ),
    "a varint without end": Difference("compacted", of_one_record(b"\xff" * 8), FAILED, INVALID),
    "recompressed, before 1970": Difference(
        "gzip", batch(-77, -78), FAILED, Outcome(ErrorCode.NONE, (), -1)
    ),
}
STRICTER = {
    # Such offsets stand in the way of whoever compacts the log, or seeks in it.
    "offsets that leave gaps": Difference("compacted", with_offsets(0, 2, 4), STORED, INVALID),
    "offsets that do not rise": Difference("compacted", with_offsets(0, 0, 0), STORED, INVALID),
    "recompressed offsets, which Kafka counts anew": Difference(
        "gzip", with_offsets(0, 2, 4), STORED, INVALID
    ),
    # Whoever sends a batch must not hold a broker up with it.
    "too many records to read": Difference(
        "gzip", batch(*[NOW] * 70_000, size=0, compression=ZSTD), STORED, LARGE
    ),
    "too much to inflate": Difference(
        "compacted", batch(NOW, size=20_000_000, compression=ZSTD), STORED, LARGE
    ),
}
OTHERWISE = {
    # Bytes that are no batch at all: which of their faults is found first.
    "zeros": Difference("plain", bytes(16), CORRUPT, INVALID),
    "more zeros": Difference("plain", bytes(17), CORRUPT, INVALID),
    "zeros after it": Difference("plain", batch() + bytes(16), CORRUPT, STORED),
    # Kafka takes the greatest time for that of each record, and then lets them have their own.
    "append time claimed, and no greatest time": Difference(
        "plain",
        changed(batch(), attributes=LOG_APPEND_TIME, max_timestamp=5),
        Outcome(ErrorCode.NONE, (), 5),
        STORED,
    ),
    # Kafka finds a record without a key first, where pyk has not looked at any.
    "append time claimed, and no record with a key": Difference(
        "append-time-compacted",
        changed(build_batch([record(0, key=None)]), attributes=LOG_APPEND_TIME),
        Outcome(ErrorCode.INVALID_RECORD, (0,)),
        Outcome(ErrorCode.INVALID_TIMESTAMP, (0,)),
    ),
}
DIFFERENCES = NOT_READ | ACCIDENTS | STRICTER | OTHERWISE


def properties(config: LogConfig) -> dict[str, str]:
    """What Kafka must be told for a topic like this."""
    default = LogConfig()
    return {
        field.name.replace("_", "."): property_value(getattr(config, field.name))
        for field in msgspec.structs.fields(LogConfig)
        if getattr(config, field.name) != getattr(default, field.name)
    }


def property_value(value: object) -> str:
    match value:
        case Compression.NONE:
            return "uncompressed"
        case Compression():
            return value.name.lower()
        case TimestampType():
            return {0: "CreateTime", 1: "LogAppendTime"}[value]
        case frozenset():
            return ",".join(policy.value for policy in value)
        case _:
            return str(value)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Address]:
    with kafka_server() as server:
        client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": server.bootstrap_servers
        }
        topics = [NewTopic(name, 1, 1, config=properties(it)) for name, it in TOPICS.items()]
        admin = AdminClient(client)
        for created in admin.create_topics(topics).values():
            created.result(30)
        # Topics have their leaders some time after they are created, which this client waits for.
        first = Producer(client)
        for name in TOPICS:
            first.produce(name, b"first", b"key")
        assert first.flush(30) == 0
        yield server.host, server.port


def asked(address: Address, key: ApiKey, version: int, request: object) -> Any:
    frame = b"".join(bytes(chunk) for chunk in encode_request(key, version, 1, "me", request))  # type: ignore[arg-type]
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(frame)
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            return decode_response(key, version, stream.read(size))[1]


def produced(address: Address, topic: str, data: bytes) -> PartitionProduceResponse:
    partition = PartitionProduceData(index=0, records=data)
    request = ProduceRequest(
        acks=ALL_ACK,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )
    response = asked(address, ApiKey.PRODUCE, PRODUCE_VERSION, request)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def fetched(address: Address, topic: str, offset: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**24)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    response = asked(address, ApiKey.FETCH, FETCH_VERSION, request)
    return bytes(response.responses[0].partitions[0].records)


def their_outcome(address: Address, topic: str, answer: PartitionProduceResponse) -> Outcome:
    blamed = tuple(error.batch_index for error in answer.record_errors)
    if answer.error_code:
        return Outcome(ErrorCode(answer.error_code), blamed)
    stored = read_header(fetched(address, topic, answer.base_offset))
    return Outcome(ErrorCode.NONE, blamed, stored.max_timestamp)


def our_outcome(outcome: Prepared | KafkaError) -> Outcome:
    match outcome:
        case Prepared():
            return Outcome(ErrorCode.NONE, (), outcome.header.max_timestamp)
        case InvalidRecords():
            return Outcome(outcome.code, tuple(e.batch_index for e in outcome.record_errors))
        case KafkaError():
            return Outcome(outcome.code)


def prepared(topic: str, data: bytes, now_ms: int) -> Prepared | KafkaError:
    try:
        return prepare(data, TOPICS[topic], now_ms, Origin.CLIENT)
    except KafkaError as refusal:
        return refusal


def times_of(answer: PartitionProduceResponse) -> int:
    """When Kafka appended, if it says so."""
    return NOW if answer.log_append_time_ms < 0 else answer.log_append_time_ms


@pytest.mark.parametrize("case", CASES)
def test_kafka_and_pyk_say_and_store_the_same(case: str, kafka: Address) -> None:
    topic, data = CASES[case]
    answer = produced(kafka, topic, data)
    ours = prepared(topic, data, times_of(answer))
    assert our_outcome(ours) == their_outcome(kafka, topic, answer)
    if isinstance(ours, KafkaError):
        # pyk gives a reason each time, Kafka where records are to blame, and seldom else.
        assert ours.message is not None
        assert all(error.batch_index_error_message for error in answer.record_errors)
        assert answer.error_message or not answer.record_errors
        return
    assert ours.append_time == answer.log_append_time_ms
    stamp_offset(ours.data, 0, answer.base_offset, 0)
    theirs = fetched(kafka, topic, answer.base_offset)
    if read_header(data).compression is ours.header.compression:
        assert theirs == bytes(ours.data)
    else:
        assert_alike_but_for_compression(read_header(theirs), theirs, bytes(ours.data))


def assert_alike_but_for_compression(header: BatchHeader, theirs: bytes, ours: bytes) -> None:
    found = read_header(ours)
    check_crc(ours, 0, found)
    assert list(read_records(ours)) == list(read_records(theirs))
    for name in set(BatchHeader.__struct_fields__) - {"batch_length", "crc"}:
        assert getattr(found, name) == getattr(header, name), name


@pytest.mark.parametrize("case", DIFFERENCES)
def test_listed_differences_are_still_there(case: str, kafka: Address) -> None:
    topic, data, theirs, ours = DIFFERENCES[case]
    answer = produced(kafka, topic, data)
    assert their_outcome(kafka, topic, answer) == theirs
    assert our_outcome(prepared(topic, data, times_of(answer))) == ours
    assert theirs != ours


def test_no_case_is_listed_twice() -> None:
    groups = (FRAMING, HEADERS, TIMES, CONTENTS, COMPRESSIONS)
    assert len(CASES) == sum(map(len, groups))
    assert len(DIFFERENCES) == sum(map(len, (NOT_READ, ACCIDENTS, STRICTER, OTHERWISE)))
