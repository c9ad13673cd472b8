"""Clients that nobody wants, each a process of its own: `python -m tests.server.attacks`."""

from __future__ import annotations

import argparse
import json
import random
import resource
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

Address: TypeAlias = tuple[str, int]
REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
HELD: Final = 1_000
HARD_END: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that ends a connection with a reset."""


def until(seconds: float) -> Iterator[None]:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        yield


def connected(address: Address, count: int) -> list[socket.socket]:
    return [socket.create_connection(address, timeout=20) for _ in range(count)]


def ended(connections: list[socket.socket]) -> int:
    """How many the server has closed."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLRDHUP)
    return len(poll.poll(0))


def half_frames(address: Address, seconds: float) -> str:
    connections = connected(address, HELD)
    for number, connection in enumerate(connections):
        connection.sendall(REQUEST[: number % len(REQUEST)])
    time.sleep(seconds)
    return f"{len(connections)} connections, {ended(connections)} closed"


def huge_lengths(address: Address, seconds: float) -> str:
    tried = 0
    for _ in until(seconds):
        with socket.create_connection(address) as connection, suppress(ConnectionError):
            size = (100 * 1024**2, 2**31 - 1, -1)[tried % 3]
            connection.sendall(struct.pack(">i", size) + bytes(10))
        tried += 1
    return f"{tried} connections"


def random_bytes(address: Address, seconds: float) -> str:
    rng = random.Random(5)
    tried = 0
    for _ in until(seconds):
        with socket.create_connection(address) as connection, suppress(ConnectionError):
            data = rng.randbytes(rng.choice((10, 100, 4000)))
            if rng.random() < 0.5:
                data = struct.pack(">ih", len(data) - 4, rng.randrange(100)) + data[6:]
            connection.sendall(data)
        tried += 1
    return f"{tried} connections"


def drips(address: Address, seconds: float) -> str:
    connections = connected(address, HELD)
    for number, _ in enumerate(until(seconds)):
        for connection in connections:
            with suppress(OSError):
                connection.send(REQUEST[number % len(REQUEST) :][:1])
        time.sleep(0.5)
    return f"{len(connections)} connections, a byte each 0.5 s, {ended(connections)} closed"


def storm(address: Address, seconds: float) -> str:
    rng = random.Random(5)
    tried = 0
    for _ in until(seconds):
        with socket.create_connection(address, timeout=20) as connection:
            if rng.random() < 0.3:
                connection.sendall(REQUEST)
            if rng.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_END)
        tried += 1
    return f"{tried / seconds:,.0f} connections a second"


def never_reading(address: Address, seconds: float) -> str:
    connections = [socket.socket() for _ in range(30)]
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        connection.setblocking(False)
    sent = [0] * len(connections)
    block = REQUEST * 1_000
    for _ in until(seconds):
        for number, connection in enumerate(connections):
            with suppress(OSError):
                sent[number] += connection.send(block[sent[number] % len(REQUEST) :])
        time.sleep(0.01)
    closed = ended(connections)
    return f"{len(connections)} connections, {closed} closed, {sum(sent) / 1e6:.0f} MB sent"


def large_halves(address: Address, seconds: float) -> str:
    connections = connected(address, 30)
    for connection in connections:
        connection.sendall(struct.pack(">i", 100 * 1024**2))
        connection.setblocking(False)
    sent = 0
    block = bytes(256 * 1024)
    for _ in until(seconds):
        for connection in connections:
            with suppress(OSError):
                sent += connection.send(block)
        time.sleep(0.001)
    return f"{len(connections)} requests of 100 MB, {sent / 1e6:,.0f} MB sent"


def idle(address: Address, seconds: float) -> str:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = connected(address, min(10_000, hard - 500))
    began = time.monotonic()
    for connection in connections:
        connection.sendall(REQUEST)
    for connection in connections:
        connection.recv(1000)
    took = time.monotonic() - began
    print(len(connections), flush=True)
    time.sleep(seconds)
    return f"{len(connections)} connections, all answered in {took:.1f} s"


def good(address: Address, seconds: float) -> str:
    """A client as it should be: 500 requests a second, one at a time. Its latencies as JSON."""
    latencies = []
    with socket.create_connection(address, timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in until(seconds):
            began = time.perf_counter()
            connection.sendall(REQUEST)
            assert connection.recv(10_000)
            latencies.append((time.perf_counter() - began) * 1e6)
            time.sleep(0.002)
    latencies.sort()
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return json.dumps(
        {name: latencies[int((len(latencies) - 1) * share)] for name, share in shares.items()}
    )


ATTACKS: Final[dict[str, Callable[[Address, float], str]]] = {
    "half frames": half_frames,
    "huge lengths": huge_lengths,
    "random bytes": random_bytes,
    "slow connections": drips,
    "connection storm": storm,
    "never reading": never_reading,
    "large halves": large_halves,
    "idle": idle,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.server.attacks", description=__doc__)
    parser.add_argument("name", choices=[*ATTACKS, "good"])
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    run = ATTACKS.get(given.name, good)
    print(run(("127.0.0.1", given.port), given.seconds))


if __name__ == "__main__":
    main()
