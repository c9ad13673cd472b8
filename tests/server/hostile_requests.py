"""Requests that are the protocol and mean harm: any value in any field of any API that is served,
batches that inflate to much more than they are, and bytes that only begin as a request does."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyk.handlers.table import ENDPOINTS
from pyk.wire.apis import ApiKey
from pyk.wire.batch import encode_batch
from pyk.wire.compression import Compression, compress
from pyk.wire.fields import Field
from pyk.wire.message import layout
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from pyk.wire.request import encode_request
from tests.wire.strategies import Pool, build

if TYPE_CHECKING:
    import random

BAIT: Final = "bait"
"""A topic with much in it."""
BAIT_COMPACTED: Final = "bait-compacted"
"""One whose batches the broker has to inflate."""
LURES: Final = ("lure-1", "lure-2")
"""Topics that are there to be changed and deleted."""
ROUTES: Final = [
    (key, version)
    for key, endpoint in ENDPOINTS.items()
    for version in range(
        layout(endpoint.request).versions.lowest, layout(endpoint.request).versions.highest + 1
    )
]
BOMB_BYTES: Final = 64 * 1024**2
NAMES: Final = frozenset({"name", "topic", "topic_name", "resource_name"})


def framed(key: ApiKey, version: int, request: Any) -> bytes:
    return b"".join(encode_request(key, version, 7, "hostile", request))  # type: ignore[arg-type]


def with_random_body(rng: random.Random) -> bytes:
    """A header as it should be, and anything behind it."""
    key, version = rng.choice(ROUTES)
    flexible = layout(ENDPOINTS[key].request).flexible.covers(version)
    head = struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")
    frame = head + rng.randbytes(rng.choice((0, 10, 100, 1000, 20_000)))
    return struct.pack(">i", len(frame)) + frame


def with_hostile_values(rng: random.Random) -> bytes:
    """A request that can be read, with the values that are the hardest to deal with."""
    key, version = rng.choice(ROUTES)
    pool = Pool(rng.randbytes(400))
    return framed(key, version, build(ENDPOINTS[key].request, version, pool, _lure))


def _lure(field: Field, pool: Pool) -> Any:
    """Now and then something of what there is, or else all are refused for the same reason."""
    if field.kind.name == "string" and field.name in NAMES and pool.byte() % 2:
        return pool.some((*LURES, "1"))
    if field.name == "records" and pool.byte() % 2:
        batch = bytearray(build_batch([Record(offset=0, timestamp=0, key=None, value=b"x")]))
        batch[pool.byte() % len(batch)] = pool.byte()
        return bytes(batch)
    return None


def produced(topic: str, batch: bytes) -> bytes:
    data = PartitionProduceData(index=0, records=batch)
    asked = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=asked)
    return framed(ApiKey.PRODUCE, 9, request)


def bombs() -> Iterator[bytes]:
    """Batches of a few kilobytes, and in them megabytes: one for each codec and topic."""
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        # Snappy does not compress as well, and a batch beyond a megabyte would not be looked at.
        size = BOMB_BYTES // 8 if codec is Compression.SNAPPY else BOMB_BYTES
        batch = encode_batch(
            compress(codec, bytes(size)),
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=codec,
            last_offset_delta=0,
            base_timestamp=1,
            max_timestamp=1,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=1,
        )
        for topic in (BAIT, BAIT_COMPACTED):
            yield produced(topic, batch)


def fetched(topic: str, *, max_wait_ms: int = 0, min_bytes: int = 1, offset: int = 0) -> bytes:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**31 - 1)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=2**31 - 1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return framed(ApiKey.FETCH, 11, request)


BATCHES: Final = 60
BATCH_VALUE_BYTES: Final = 500_000


def fill(address: str, topic: str, batches: int) -> None:
    """Put something into a topic that is worth being fetched."""
    record = Record(offset=0, timestamp=1, key=b"key", value=bytes(BATCH_VALUE_BYTES))
    request = produced(topic, build_batch([record]))
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        answers = connection.makefile("rb")
        for _ in range(batches):
            connection.sendall(request)
            assert answers.read(int.from_bytes(answers.read(4), "big"))
