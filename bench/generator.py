"""A load of raw requests on raw sockets, from a process of its own, for any broker.

    python -m bench.generator HOST:PORT REQUEST... --connections 50 --in-flight 1 --seconds 2

The requests are whole frames in hexadecimal, sent in turn on each connection. An answer is a frame
too; what is in it does not matter. Prints a JSON object: the rate, latencies, and bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from time import perf_counter
from typing import Final

RECEIVE_BYTES: Final = 1024**2
WARM_UP_SHARE: Final = 0.2
REPOSITORY: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured: requests answered in a second, microseconds from sending one to the end
    of its answer, bytes of answers in a second."""

    rate: float
    p50_us: float
    p99_us: float
    max_us: float
    answer_bytes_per_second: float
    answered: int
    """How many requests, with those of warming up."""
    cpu_seconds: float
    """What the generator itself took. Near the measured time it is what limits the rate."""


class Client:
    """One connection with so many requests in flight."""

    def __init__(
        self,
        address: tuple[str, int],
        requests: Iterator[bytes],
        in_flight: int,
        buffer: memoryview,
    ) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._in_flight = in_flight
        self._buffer = buffer
        self._head = b""
        self._missing = 0
        self._sent_at: deque[float] = deque()

    def fill(self) -> None:
        """Send until enough are in flight."""
        room = self._in_flight - len(self._sent_at)
        if room:
            data = b"".join(next(self._requests) for _ in range(room))
            now = perf_counter()
            self.socket.sendall(data)
            self._sent_at.extend([now] * room)

    def take(self, latencies: list[float]) -> int:
        """Receive once, and note the latency of each answer that is complete. How many bytes."""
        size = self.socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the broker hung up")
        position = 0
        while position < size:
            if not self._missing:
                taken = bytes(self._buffer[position : position + 4 - len(self._head)])
                position += len(taken)
                self._head += taken
                if len(self._head) < 4:
                    break
                self._missing = int.from_bytes(self._head, "big")
                self._head = b""
            step = min(self._missing, size - position)
            position += step
            self._missing -= step
            if not self._missing:
                latencies.append(perf_counter() - self._sent_at.popleft())
        return size


def run(
    address: tuple[str, int],
    requests: Sequence[bytes],
    connections: int,
    in_flight: int,
    seconds: float,
) -> Load:
    """Keep the connections busy, and measure after a while of warming up."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    clients = [Client(address, cycle(requests), in_flight, buffer) for _ in range(connections)]
    warming_up, _ = _drive(clients, seconds * WARM_UP_SHARE)
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = perf_counter()
    latencies, size = _drive(clients, seconds)
    took = perf_counter() - began
    now = resource.getrusage(resource.RUSAGE_SELF)
    ordered = sorted(latencies)
    return Load(
        rate=len(ordered) / took,
        p50_us=ordered[len(ordered) // 2] * 1e6,
        p99_us=ordered[len(ordered) * 99 // 100] * 1e6,
        max_us=ordered[-1] * 1e6,
        answer_bytes_per_second=size / took,
        answered=len(warming_up) + len(ordered),
        cpu_seconds=now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
    )


def _drive(clients: list[Client], seconds: float) -> tuple[list[float], int]:
    """All latencies, in seconds, and how many bytes came."""
    latencies: list[float] = []
    size = 0
    ends = perf_counter() + seconds
    for client in clients:
        client.fill()
    if len(clients) == 1:
        # Without a poll in between: what is measured is the broker, not the generator.
        (client,) = clients
        while perf_counter() < ends:
            size += client.take(latencies)
            client.fill()
        return latencies, size
    poll = select.epoll()
    by_descriptor = {client.socket.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    while perf_counter() < ends:
        for descriptor, _ in poll.poll(1.0):
            client = by_descriptor[descriptor]
            size += client.take(latencies)
            client.fill()
    poll.close()
    return latencies, size


def load(
    address: tuple[str, int],
    requests: Sequence[bytes],
    *,
    connections: int = 1,
    in_flight: int = 1,
    seconds: float = 1.0,
) -> Load:
    """The same, from another process."""
    host, port = address
    options = ["--connections", connections, "--in-flight", in_flight, "--seconds", seconds]
    given = [f"{host}:{port}", *(request.hex() for request in requests), *map(str, options)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.generator", *given],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
        timeout=seconds * 3 + 60,
    )
    return Load(**json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.generator", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("requests", nargs="+", type=bytes.fromhex)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    found = run(
        (host, int(port)), given.requests, given.connections, given.in_flight, given.seconds
    )
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
