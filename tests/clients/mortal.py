"""A broker that is killed, and lives again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.clients.brokers import running
from tests.clients.ports import HOST, free_ports

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType


class MortalBroker:
    """A broker that lives again at the same address, with the same data.

    As a context it lives from the beginning, and does not outlive the end.
    """

    def __init__(self, address: str, life: Callable[[], AbstractContextManager[int]]) -> None:
        """`life` is a broker from its start to its end, whichever comes; it has this process id."""
        self.address = address
        self._life = life
        self._now: AbstractContextManager[int] | None = None
        self._process_id = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._now = self._life()
        self._process_id = self._now.__enter__()

    def kill(self) -> None:
        ended = os.waitid(os.P_PID, self._process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        assert ended is None, "it has ended by itself"
        os.kill(self._process_id, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        if self._now is not None:
            self._now.__exit__(None, None, None)
            self._now = None


def mortal_pyk(data_dir: Path, *options: str) -> MortalBroker:
    """`pyk serve`, always on the same port."""
    [port] = free_ports(1)

    @contextmanager
    def life() -> Iterator[int]:
        with running(data_dir, "--port", str(port), *options) as broker:
            yield broker.process.pid

    return MortalBroker(f"{HOST}:{port}", life)
