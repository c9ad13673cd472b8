"""Something that goes wrong until it is lifted, and how often it did.

Faults are made and lifted in the thread of a test, and hit in that of a broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    from types import TracebackType

Soon: TypeAlias = Callable[[Callable[[], object]], None]
"""Have something called in the broker's loop."""

PATIENCE = 10.0
"""How long tests wait for what must happen, in seconds."""


class BrokerFailed(Exception):
    """The broker died, or it had a bug. Its cause says of what."""


class Fault:
    """In force from the start. As a context manager it is lifted at the end of the block."""

    def __init__(self, what: str, lift: Callable[[], None] = lambda: None) -> None:
        self._what = what
        self._lift = lift
        self._changed = threading.Condition()
        self._hits = 0
        self._is_lifted = False

    def __repr__(self) -> str:
        state = "lifted" if self._is_lifted else "in force"
        return f"<{self._what}, {state}, hit {self._hits} times>"

    @property
    def hits(self) -> int:
        """How often it made a difference."""
        return self._hits

    @property
    def is_lifted(self) -> bool:
        return self._is_lifted

    def hit(self) -> None:
        self.count()

    def count(self) -> None:
        with self._changed:
            self._hits += 1
            self._changed.notify_all()

    def wait(self, hits: int = 1, timeout: float = PATIENCE) -> None:
        """Return when it was hit so often. Raise TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= hits, timeout):
                raise TimeoutError(f"{self!r} after {timeout} s, not {hits} times")

    def lift(self) -> None:
        """End it. What was held back by it goes on."""
        if not self._is_lifted:
            self._is_lifted = True
            self._lift()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lift()


class Provoked(BaseException):
    """Mixed into what a broker dies of because a test wanted it to."""
