"""What batches do to the producers of a log: the same when appended and when read again later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyk.log.markers import read_marker
from pyk.log.producers import Producers
from pyk.log.segment import Segment
from pyk.log.transactions import AbortedTransaction
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader

_BATCHES_AT_ONCE: Final = 1024


def note(
    producers: Producers, header: BatchHeader, read: Callable[[], Buffer]
) -> AbortedTransaction | None:
    """A batch is in the log. What it aborted, if it is a marker that did. `read` gives its bytes,
    which only control batches need."""
    if not header.is_control:
        producers.update(header)
        return None
    marker = read_marker(read(), header) if header.producer_id >= 0 else None
    if marker is None:
        return None
    return producers.end_transaction(header, *marker)


def replay(
    producers: Producers,
    segment: Segment,
    start_offset: int,
    end_offset: int,
    checkpoint: Callable[[int], None] = lambda read_bytes: None,
) -> Iterator[AbortedTransaction]:
    """Let `producers` see what is in a segment between two offsets, and give what was aborted.
    `checkpoint` is called now and then, and may raise to stop."""
    first = segment.locate(max(start_offset, segment.without_producers_until))
    if first is None:
        return
    for number, placed in enumerate(segment.batches(first.position)):
        header = placed.header
        if header.last_offset >= end_offset:
            break
        if not number % _BATCHES_AT_ONCE:
            checkpoint(0)
        if header.producer_id < 0:
            continue
        aborted = note(producers, header, lambda placed=placed: segment.load(placed))  # type: ignore[misc]
        if aborted is not None:
            yield aborted
