"""Messages of very many elements are written bit by bit."""

from __future__ import annotations

import tracemalloc

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
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=number, metadata="m" * (number % 5)
        )
        for number in range(1_000)
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = OffsetFetchResponseGroup(group_id="g", topics=topics)
    return OffsetFetchResponse(groups=[group] * count)


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
