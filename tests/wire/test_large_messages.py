"""Messages of very many elements are written bit by bit."""

from __future__ import annotations

import tracemalloc
from functools import partial

import pytest

from pyk.wire.codec import encoder_of
from pyk.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pyk.wire.writer import write_plainly

VERSION = 8


def of_groups(count: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[group() for _ in range(count)])


def group(partitions_count: int = 1_000) -> OffsetFetchResponseGroup:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=number, metadata="m" * (number % 5)
        )
        for number in range(partitions_count)
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    return OffsetFetchResponseGroup(group_id="g", topics=topics)


def test_the_pieces_of_a_large_message_are_not_all_there_at_once() -> None:
    """No other thread runs while they are joined: a million of them take 90 ms."""
    encode = encoder_of(OffsetFetchResponse, VERSION)
    response = of_groups(200)
    encode(of_groups(1))
    tracemalloc.start()
    chunks = encode(response)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * sum(map(len, chunks))


def test_what_is_written_bit_by_bit_is_the_same() -> None:
    for count in (1, 2, 3, 10):
        response = of_groups(count)
        assert encoder_of(OffsetFetchResponse, VERSION)(response) == write_plainly(
            VERSION, response
        )


@pytest.mark.parametrize("partitions", [10, 1_000])
def test_what_is_there_many_times_is_encoded_once(partitions: int) -> None:
    one = group(partitions)
    response = OffsetFetchResponse(groups=[one] * 5_000)
    apart = OffsetFetchResponse(groups=[group(partitions) for _ in range(3)])
    for encode in (encoder_of(OffsetFetchResponse, VERSION), partial(write_plainly, VERSION)):
        single = len(b"".join(encode(OffsetFetchResponse(groups=[one]))))  # type: ignore[arg-type]
        chunks = encode(response)
        assert sum(map(len, chunks)) > 4_900 * (single - 20)
        distinct = {id(chunk): len(chunk) for chunk in chunks}
        assert sum(size for size in distinct.values() if size > 20) < 3 * single
        together = encode(OffsetFetchResponse(groups=[one] * 3))
        assert b"".join(together) == b"".join(encode(apart))  # type: ignore[arg-type]
