"""What is counted of the requests of one API, in all its versions."""

from __future__ import annotations

from pyk.metrics import Histogram
from pyk.wire.shapes import Chunks


class Traffic:
    __slots__ = ("answer_bytes", "errors", "request_bytes", "took", "waited_nanoseconds")

    def __init__(self) -> None:
        self.request_bytes = 0
        self.answer_bytes = 0
        self.errors: dict[int, int] = {}
        """By error code. Of an answer about many partitions each counts."""
        self.took = Histogram()
        """From a request that is complete to its answer that is ready."""
        self.waited_nanoseconds = 0
        """What of that was spent waiting, for records, replicas or the disk."""

    @property
    def requests(self) -> int:
        """Those that were answered, or handled if there is nothing to answer."""
        return self.took.count

    def count(self, answer: Chunks, nanoseconds: int) -> None:
        """An answer that is ready, and how long it took."""
        self.answer_bytes += len(answer[0]) if len(answer) == 1 else sum(map(len, answer))
        self.took.add(nanoseconds)

    def note_error(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1
