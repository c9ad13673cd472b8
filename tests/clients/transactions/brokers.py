"""A broker that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class MortalBroker:
    """A broker that lives again at the same address, with the same data."""

    def __init__(self, address: str, life: Callable[[], AbstractContextManager[int]]) -> None:
        """`life` is a broker from its start to its end, whichever comes; it has this process id."""
        self.address = address
        self._life = life
        self._now: AbstractContextManager[int] | None = None
        self._process_id = 0

    def start(self) -> None:
        self._now = self._life()
        self._process_id = self._now.__enter__()

    def kill(self) -> None:
        os.kill(self._process_id, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        if self._now is not None:
            self._now.__exit__(None, None, None)
            self._now = None
