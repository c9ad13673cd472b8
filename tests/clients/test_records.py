"""What a client puts in, it gets out: codecs, headers, nulls, timestamps."""

from __future__ import annotations

import pytest

from pyk.wire.batch import TimestampType
from tests.clients.adapters.client import Client, Found, Sent
from tests.clients.stored import create_topic, stored_batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
THEN = 1_700_000_000_000
SENT = [
    Sent(key=b"key", value=b"value"),
    Sent(key=None, value=b"no key"),
    Sent(key=b"tombstone", value=None),
    Sent(key=b"", value=b""),
    Sent(key="Schl\u00fcssel".encode(), value=b"to be made smaller " * 5_000),
    Sent(
        key=b"headers",
        value=b"value",
        headers=(("name", b"value"), ("name", b"again"), ("empty", b""), ("name", b"once more")),
    ),
]


def as_sent(found: Found) -> Sent:
    return Sent(key=found.key, value=found.value, headers=found.headers)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_put_in_comes_out(client: Client, topic: str, codec: str) -> None:
    if codec not in client.codecs:
        client.lacks(f"compress with {codec}")
    create_topic(client.address, topic)
    client.produce(topic, SENT, codec=codec)
    found = client.consume(topic)
    assert [as_sent(each) for each in found] == SENT
    assert [each.offset for each in found] == list(range(len(SENT)))
    used = {each.compression.name.lower() for each in stored_batches(client.address, topic)}
    assert codec in used, "the client has sent them in another way"


def test_a_header_may_be_null(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    sent = Sent(value=b"value", headers=(("null", None), ("not", b"null"), ("null", None)))
    client.produce(topic, [sent])
    assert [as_sent(each) for each in client.consume(topic)] == [sent]


def test_every_byte_there_is_comes_out(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    every = bytes(range(256))
    sent = Sent(key=every, value=every * 100, headers=(("every", every),))
    client.produce(topic, [sent])
    assert [as_sent(each) for each in client.consume(topic)] == [sent]


def test_a_producer_sets_the_time(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    times = [THEN, THEN - 86_400_000, THEN + 1]
    client.produce(topic, [Sent(value=b"value", timestamp=each) for each in times])
    found = client.consume(topic)
    assert [(each.timestamp, each.is_append_time) for each in found] == [
        (each, False) for each in times
    ]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_broker_sets_the_time(client: Client, topic: str, codec: str) -> None:
    create_topic(client.address, topic, message_timestamp_type="LogAppendTime")
    client.produce(topic, [Sent(value=b"value" * 1000) for _ in range(3)], codec=codec)
    found = client.consume(topic)
    assert [each.is_append_time for each in found] == [True] * 3
    stored = stored_batches(client.address, topic)
    assert {each.timestamp_type for each in stored} == {TimestampType.LOG_APPEND_TIME}
    told = [each.max_timestamp for each in stored for _ in range(each.records_count)]
    assert [each.timestamp for each in found] == told
