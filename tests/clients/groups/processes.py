"""The programs of members, and the one pipe that all of them write to."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

STOP_SECONDS = 60.0
READ_BYTES = 1 << 16


class Process:
    """A program that is no member, or one member."""

    def __init__(self, command: tuple[str, ...], events: int, log: IO[bytes]) -> None:
        self.command = command
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=events, stderr=log, bufsize=0
        )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def tell(self, do: str, **details: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """At once, without a word to anybody."""
        self._process.kill()
        self.end()

    def let_go(self) -> None:
        """It ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self) -> None:
        self.let_go()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class Processes:
    """They are kept when their members have left, since some take a second to start."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._log = log.open("wb")
        self._reads, self._writes = os.pipe()
        self._idle: dict[tuple[str, ...], list[Process]] = defaultdict(list)
        self._all: list[Process] = []
        self._rest = b""

    def close(self) -> None:
        for process in self._all:
            process.let_go()
        for process in self._all:
            process.end()
        os.close(self._reads)
        os.close(self._writes)
        self._log.close()

    def take(self, command: tuple[str, ...]) -> Process:
        if self._idle[command]:
            return self._idle[command].pop()
        self._all.append(Process(command, self._writes, self._log))
        return self._all[-1]

    def give_back(self, process: Process) -> None:
        self._idle[process.command].append(process)

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """Those that have come, or come within so many seconds, in the order of their coming."""
        if not select.select([self._reads], [], [], seconds)[0]:
            return []
        *lines, self._rest = (self._rest + os.read(self._reads, READ_BYTES)).split(b"\n")
        return [json.loads(line) for line in lines]
