"""A broker in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunningBroker:
    address: str
    data_dir: Path
    process: subprocess.Popen[str]


@contextmanager
def running(data_dir: Path, *options: str) -> Iterator[RunningBroker]:
    """`pyk serve` on a free port. It is asked to stop at the end, if it has not yet."""
    command = [sys.executable, "-m", "pyk", "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--data-dir", str(data_dir), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield RunningBroker(process.stdout.readline().split()[-1], data_dir, process)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
