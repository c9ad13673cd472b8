"""A log as the readers of share groups see it: record batches, with holes and aborted ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyk.sharing.delivery import Span


class Read(NamedTuple):
    fetch_offset: int
    batches: Sequence[Span]


@dataclass
class Log:
    batches: list[Span] = field(default_factory=list)
    aborted: list[Span] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(self, size: int, hole: int, *, is_aborted: bool) -> None:
        span = Span(self.end + hole, self.end + hole + size)
        self.batches.append(span)
        if is_aborted:
            self.aborted.append(span)
        self.end = span.end

    def read(self, offset: int, count: int) -> Read:
        return Read(offset, [span for span in self.batches if span.end > offset][:count])

    def compact(self, at: int) -> None:
        """The last batch stays, as it does in Kafka."""
        if at < len(self.batches) - 1:
            del self.batches[at]

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self.batches = [span for span in self.batches if span.end > offset]

    def records(self) -> set[int]:
        aborted = offsets(self.aborted)
        return {each for each in offsets(self.batches) - aborted if each >= self.start}


def offsets(spans: Iterable[tuple[Any, ...]]) -> set[int]:
    """All that is in them. Whatever they are, they begin with a base and an end."""
    return {offset for base, end, *_ in spans for offset in range(base, end)}
