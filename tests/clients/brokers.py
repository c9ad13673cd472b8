"""A broker in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class RunningBroker:
    addresses: tuple[str, ...]
    """All that it says it listens on, in its order."""
    data_dir: Path
    process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return self.addresses[0]


@contextmanager
def running(
    data_dir: Path,
    *options: str,
    host: str | None = "127.0.0.1",
    addresses: int = 1,
    log: IO[str] | None = None,
) -> Iterator[RunningBroker]:
    """`pyk serve`, on a free port of the host, or without a host where the options say, and on so
    many addresses. It is asked to stop at the end, if it has not yet."""
    command = [sys.executable, "-m", "pyk", "serve", "--data-dir", str(data_dir)]
    command += [] if host is None else ["--host", host, "--port", "0"]
    command += options
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(addresses)]
            assert all("listens on" in line for line in said), said
            yield RunningBroker(tuple(line.split()[-1] for line in said), data_dir, process)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def options_for(settings: Mapping[str, str]) -> list[str]:
    """Of `pyk serve`."""
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
