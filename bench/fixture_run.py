"""One run of `bench.fixture`: from the start of Python to the first acknowledged record.

    python -m bench.fixture_run thread|process|kafka

Prints a JSON object: milliseconds, and megabytes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

RECORD_SECONDS_MAX: Final = 60.0
FRAMES: Final = "PYK_BENCH_FRAMES"
"""The variable with the two requests that make a topic and write to it, in hexadecimal digits."""
TOPIC: Final = "first"
ERROR_CODE_AT: Final = 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""In an answer to Produce v7 for one partition: after correlation id, counts, name and index."""


def in_thread() -> AbstractContextManager[Any]:
    from pyk.testing import serve_in_thread

    return serve_in_thread()


def in_process() -> AbstractContextManager[Any]:
    from pyk.testing import serve_in_subprocess

    return serve_in_subprocess()


def kafka() -> AbstractContextManager[Any]:
    from compat_tests.kafka.server import kafka_server

    return kafka_server(is_measured=True)


STARTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "thread": in_thread,
    "process": in_process,
    "kafka": kafka,
}


def first_record(broker: Any) -> None:
    """Make a topic and write a record, over the wire, until that is acknowledged.

    What is sent is prepared by `bench.fixture`: what a client takes to start is the client's.
    """
    make_topic, write = (bytes.fromhex(each) for each in os.environ[FRAMES].split())
    deadline = time.perf_counter() + RECORD_SECONDS_MAX
    # What connects by name looks up names, and imports tables of Unicode for that.
    with socket.socket() as connection:
        connection.settimeout(RECORD_SECONDS_MAX)
        connection.connect((broker.host, broker.port))
        while True:
            answered(connection, make_topic)
            answer = answered(connection, write)
            error_code: int = struct.unpack_from(">h", answer, ERROR_CODE_AT)[0]
            if error_code == 0:
                return
            # Kafka makes a topic before anybody leads it.
            assert time.perf_counter() < deadline, error_code


def answered(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def main() -> None:
    start = STARTS[sys.argv[1]]
    before = resident_megabytes(os.getpid())
    began = time.perf_counter()
    import trio  # noqa: F401

    trio_at = time.perf_counter()
    trio_took = trio_at - began
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
        "trio": trio_took * 1000,
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
