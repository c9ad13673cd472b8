"""Java's transactional producer, in a process that does what it is told line by line."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from compat_tests.kafka import jars

SOURCE = Path(__file__).with_name("JavaTransactions.java")


class JavaProducer:
    def __init__(
        self, address: str, transactional_id: str, settings: Mapping[str, str] = {}
    ) -> None:
        known = {"bootstrap.servers": address, "transactional.id": transactional_id}
        command = jars.java_command(
            "JavaTransactions",
            *(f"{key}={value}" for key, value in {**known, **settings}.items()),
            classes=jars.compiled(SOURCE),
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def do(self, line: str) -> str:
        """What came of it: ok, or the name of an exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def all_ok(self, *lines: str) -> None:
        for line in lines:
            assert self.do(line) == "ok", line

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
