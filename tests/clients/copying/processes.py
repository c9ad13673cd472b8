"""Copiers, as processes that are killed and come back."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter


class Copiers:
    """Some copiers, and how often they have said what."""

    def __init__(self, command: list[str], count: int, at_once: int) -> None:
        self._command, self._at_once = command, at_once
        self.said: Counter[str] = Counter()
        self._processes: list[subprocess.Popen[str] | None] = [None] * count
        self._readers: list[threading.Thread] = []

    def start(self, number: int) -> None:
        command = [*self._command, str(number), str(self._at_once)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._processes[number] = process
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        self._readers.append(reader)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        assert process is not None
        assert process.poll() is None, "it has ended by itself"
        process.kill()
        process.wait()
        self._processes[number] = None

    def close(self) -> None:
        for process in self._processes:
            if process is not None:
                process.kill()
                process.wait()
        for reader in self._readers:
            reader.join()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self.said.update(line.strip() for line in process.stdout)


def python_copier(address: str) -> list[str]:
    return [sys.executable, "-m", "tests.clients.copying.copier", address]
