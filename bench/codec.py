"""The message codec beside kio (native reader) and kafka-python.

All three read the same bytes, and write equal ones from their own objects: that is checked first.
Readers and writers are looked up beforehand, as a server does.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kio.serial import entity_reader, entity_writer

from bench.table import Row, microseconds
from pyk.types import Records
from pyk.wire.codec import decode, decoder_of, encode, encoder_of
from pyk.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pyk.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pyk.wire.records import Record, build_batch

TITLE = "Messages: microseconds for one, best of many"
TOPIC = "orders.by-customer"
BATCH = build_batch([Record(offset=0, timestamp=1_700_000_000_000, key=None, value=bytes(1000))])


def rows() -> Sequence[Row]:
    return [
        decoding("decode Produce v9, 1 KB", "produce", 9, produce()),
        decoding("decode Fetch v12, 1 partition", "fetch", 12, fetch(1)),
        decoding("decode Fetch v12, 50 partitions", "fetch", 12, fetch(50)),
        encoding("encode Produce v9 response", "produce", 9, produced()),
        encoding("encode Fetch v12 response, 1 partition", "fetch", 12, fetched(1)),
        encoding("encode Fetch v12 response, 50 partitions", "fetch", 12, fetched(50)),
    ]


def produce() -> ProduceRequest:
    part = PartitionProduceData(index=3, records=BATCH)
    topic = TopicProduceData(name=TOPIC, partition_data=[part])
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic])


def produced() -> ProduceResponse:
    part = PartitionProduceResponse(index=3, base_offset=123_456_789, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[part])])


def fetch(partitions: int) -> FetchRequest:
    parts = [
        FetchPartition(
            partition=index,
            current_leader_epoch=5,
            fetch_offset=123_456 + index,
            log_start_offset=-1,
            partition_max_bytes=1_048_576,
        )
        for index in range(partitions)
    ]
    topic = FetchTopic(topic=TOPIC, partitions=parts)
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=52_428_800, topics=[topic])


def fetched(partitions: int) -> FetchResponse:
    parts = [
        PartitionData(
            partition_index=index,
            high_watermark=123_456 + index,
            last_stable_offset=123_456 + index,
            log_start_offset=0,
            aborted_transactions=None,
            records=BATCH,
        )
        for index in range(partitions)
    ]
    topic = FetchableTopicResponse(topic=TOPIC, partitions=parts)
    return FetchResponse(session_id=7, responses=[topic])


def decoding(what: str, api: str, version: int, request: Any) -> Row:
    data = joined(encode(request, version))
    declared = type(request)
    pyk_read = decoder_of(declared, version)
    kio_read = entity_reader(kio_type(api, version, declared))
    kafka_python = kafka_python_type(declared)[version]
    assert decode(declared, version, data) == request
    assert kio_read(data, 0)[1] == len(data)
    assert rebuilt(kafka_python.decode(data), version).encode() == data
    return Row(
        what,
        "us",
        microseconds(
            {
                "pyk": lambda: pyk_read(data),
                "kio": lambda: kio_read(data, 0),
                "kafka-python": lambda: kafka_python.decode(data),
            }
        ),
        goal="kio at least 0.67",
    )


def encoding(what: str, api: str, version: int, response: Any) -> Row:
    data = joined(encode(response, version))
    kio_class = kio_type(api, version, type(response))
    theirs, _ = entity_reader(kio_class)(data, 0)
    pyk_write = encoder_of(type(response), version)
    kio_write = entity_writer(kio_class)
    kafka_python = rebuilt(kafka_python_type(type(response))[version].decode(data), version)

    def write_with_kio() -> bytes:
        buffer = io.BytesIO()
        kio_write(buffer, theirs)
        return buffer.getvalue()

    assert write_with_kio() == kafka_python.encode() == data
    return Row(
        what,
        "us",
        microseconds(
            {
                "pyk": lambda: pyk_write(response),
                "kio": write_with_kio,
                "kafka-python": kafka_python.encode,
            }
        ),
        goal="kio above 1",
    )


def rebuilt(decoded: Any, version: int) -> Any:
    """A message of kafka-python's as a program would make it: decoded ones do not encode."""
    there = {
        name: getattr(decoded, name)
        for name, field in decoded.fields.items()
        if field.for_version_q(version) and field.tag is None
    }
    return type(decoded)[version](**there)


def kio_type(api: str, version: int, declared: type) -> Any:
    kind = "request" if declared.__name__.endswith("Request") else "response"
    return getattr(import_module(f"kio.schema.{api}.v{version}.{kind}"), declared.__name__)


def kafka_python_type(declared: type) -> Any:
    from kafka.protocol.consumer import fetch
    from kafka.protocol.producer import produce

    module = fetch if declared.__name__.startswith("Fetch") else produce
    return getattr(module, declared.__name__)


def joined(chunks: list[Records]) -> bytes:
    return b"".join(chunks)  # type: ignore[arg-type]
