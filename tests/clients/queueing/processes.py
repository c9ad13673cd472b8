"""Workers as processes, which die, are killed, and come back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Command: TypeAlias = Callable[[str, Path], list[str]]
"""How a worker is started, with the address of the broker and the diary."""


class Workers:
    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._processes: list[subprocess.Popen[bytes]] = []
        self._count = count
        self.died = 0
        """How many have died over a record."""

    def start(self) -> None:
        self._processes = [self._started() for _ in range(self._count)]

    def kill(self, number: int) -> None:
        """If it has not died meanwhile."""
        process = self._processes[number]
        if process.poll() is None:
            process.kill()
            process.wait()
            self._processes[number] = self._started()

    def replace_dead(self) -> None:
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                assert process.returncode < 0, f"a worker has ended with {process.returncode}"
                self.died += 1
                self._processes[number] = self._started()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)


def by_librdkafka(address: str, diary: Path) -> list[str]:
    return [sys.executable, "-m", "tests.clients.queueing.worker", address, str(diary)]


def on_the_wire(address: str, diary: Path) -> list[str]:
    return [sys.executable, "-m", "tests.clients.queueing.wire_worker", address, str(diary)]
