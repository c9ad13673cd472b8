"""One run of `bench.fixture`: from the start of Python to the first acknowledged record.

    python -m bench.fixture_run thread|process|kafka

Prints a JSON object: milliseconds, and megabytes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

RECORD_SECONDS_MAX: Final = 60.0


def in_thread() -> AbstractContextManager[Any]:
    from pyk.testing import serve_in_thread

    return serve_in_thread()


def in_process() -> AbstractContextManager[Any]:
    from pyk.testing import serve_in_subprocess

    return serve_in_subprocess()


def kafka() -> AbstractContextManager[Any]:
    from compat_tests.kafka.server import kafka_server

    return kafka_server()


STARTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "thread": in_thread,
    "process": in_process,
    "kafka": kafka,
}


def first_record(broker: Any) -> None:
    """Make a topic and write a record, over the wire, until that is acknowledged."""
    from pyk.errors import KafkaError
    from pyk.testing.wire import Wire

    deadline = time.perf_counter() + RECORD_SECONDS_MAX
    with Wire((broker.host, broker.port), RECORD_SECONDS_MAX) as wire:
        while True:
            try:
                wire.produce("first", (b"v",), 0)
                return
            except KafkaError:
                # Kafka makes a topic before anybody leads it.
                if time.perf_counter() > deadline:
                    raise


def main() -> None:
    start = STARTS[sys.argv[1]]
    before = resident_megabytes(os.getpid())
    import trio  # noqa: F401

    trio_at = time.perf_counter()
    with start() as broker:
        first_record(broker)
        first_at, first = time.perf_counter(), milliseconds_since_python_began()
        own = getattr(broker, "pid", None)
        memory = resident_megabytes(own) if own else resident_megabytes(os.getpid()) - before
    began = time.perf_counter()
    with start() as broker:
        first_record(broker)
        again_at = time.perf_counter()
    figures = {
        "after_trio": (first_at - trio_at) * 1000,
        "first": first,
        "again": (again_at - began) * 1000,
        "stop": (time.perf_counter() - again_at) * 1000,
        "memory": memory,
    }
    print(json.dumps(figures))


def milliseconds_since_python_began() -> float:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return (time.clock_gettime(time.CLOCK_BOOTTIME) - began) * 1000


def resident_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(found) / 1024


if __name__ == "__main__":
    main()
