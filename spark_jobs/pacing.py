"""In which parts a stream is sent, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

CHUNKS: Final = 24
"""A batch is sent in so many jobs, one after the other: within one, tasks may drift apart in the
time of the stream."""
SMALLEST_CHUNK: Final = 5000


class Chunk(NamedTuple):
    first: int
    size: int


def chunks(events: int) -> Iterator[Chunk]:
    """The slots of a batch, in parts."""
    size = max(SMALLEST_CHUNK, -(-events // CHUNKS))
    for first in range(0, events, size):
        yield Chunk(first, min(size, events - first))


def paced_chunks(
    events: int, rate: int, now: Callable[[], float], wait: Callable[[float], bool]
) -> Iterator[Chunk]:
    """A second's events at a time, none before its second has begun. A second that took too long
    is caught up with. `wait` lets so many seconds pass, and says whether to stop."""
    began = now()
    done = 0
    while done < events and not wait(max(0.0, began + done / rate - now())):
        chunk = Chunk(done, min(rate, events - done))
        yield chunk
        done += chunk.size
