"""Clients that nobody wants, each a process of its own: `python -m tests.server.attacks`."""

from __future__ import annotations

import argparse
import random
import resource
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

from tests.server.hostile_requests import (
    BAIT,
    bombs,
    fetched,
    with_hostile_values,
    with_random_body,
)

REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
"""ApiVersions."""
HARD_END: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that ends a connection with a reset."""
FOREVER_MS: Final = 2**31 - 1
MEGABYTE: Final = 1024**2


class Target(NamedTuple):
    address: tuple[str, int]
    seconds: float
    many: int
    """How many connections are many."""

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def connected(self, count: int) -> list[socket.socket]:
        return [self.connect() for _ in range(count)]

    def moments(self) -> Iterator[None]:
        """Until the time is up."""
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends:
            yield

    def throw(self, make: Callable[[random.Random], bytes]) -> str:
        """One connection after the other, with some such bytes in each, and a look at answers."""
        rng = random.Random(5)
        tried = sent = 0
        for _ in self.moments():
            with self.connect() as connection, suppress(OSError):
                connection.settimeout(0.005)
                for _ in range(10):
                    connection.sendall(make(rng))
                    sent += 1
                while connection.recv(65536):
                    pass
            tried += 1
        return f"{tried} connections, {sent} requests"


def ended(connections: list[socket.socket]) -> int:
    """How many the server has closed."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLRDHUP)
    return len(poll.poll(0))


def half_frames(target: Target) -> str:
    connections = target.connected(target.many)
    for number, connection in enumerate(connections):
        connection.sendall(REQUEST[: number % len(REQUEST)])
    time.sleep(target.seconds)
    return f"{len(connections)} connections, {ended(connections)} closed"


def wrong_lengths(target: Target) -> str:
    sizes = (100 * MEGABYTE, 2**31 - 1, -1, -(2**31), 100 * MEGABYTE + 1)
    tried = 0
    for _ in target.moments():
        with target.connect() as connection, suppress(ConnectionError):
            connection.sendall(struct.pack(">i", sizes[tried % len(sizes)]) + bytes(10))
        tried += 1
    return f"{tried} connections"


def random_bytes(target: Target) -> str:
    rng = random.Random(5)
    tried = 0
    for _ in target.moments():
        with target.connect() as connection, suppress(ConnectionError):
            connection.sendall(rng.randbytes(rng.choice((10, 100, 4000))))
        tried += 1
    return f"{tried} connections"


def random_bodies(target: Target) -> str:
    return target.throw(with_random_body)


def hostile_values(target: Target) -> str:
    return target.throw(with_hostile_values)


def decompression_bombs(target: Target) -> str:
    """One connection waits for each answer, and one sends as many as it can."""
    requests = list(bombs())
    sent = 0
    with target.connect() as connection, target.connect() as hasty:
        for _ in target.moments():
            hasty.sendall(b"".join(requests[:4]) if sent % 4 == 0 else b"")
            connection.sendall(requests[sent % len(requests)])
            assert connection.recv(4096), "a bomb is no reason to hang up"
            sent += 1
    return f"{2 * sent} batches of {min(map(len, requests)) // 1024} KB and more"


def slow_connections(target: Target) -> str:
    connections = target.connected(target.many)
    for number, _ in enumerate(target.moments()):
        for connection in connections:
            with suppress(OSError):
                connection.send(REQUEST[number % len(REQUEST) :][:1])
        time.sleep(0.3)
    return f"{len(connections)} connections, a byte each 0.3 s, {ended(connections)} closed"


def connection_storm(target: Target) -> str:
    rng = random.Random(5)
    tried = 0
    for _ in target.moments():
        with target.connect() as connection:
            if rng.random() < 0.3:
                connection.sendall(REQUEST)
            if rng.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_END)
        tried += 1
    return f"{tried / target.seconds:,.0f} connections a second"


def pipelined_flood(target: Target) -> str:
    """As many requests as the connection takes; the answers are read."""
    block = REQUEST * 500
    connections = target.connected(8)
    for connection in connections:
        connection.setblocking(False)
    sent = [0] * len(connections)
    for _ in target.moments():
        for number, connection in enumerate(connections):
            with suppress(BlockingIOError):
                sent[number] += connection.send(block[sent[number] % len(REQUEST) :])
            with suppress(BlockingIOError):
                while connection.recv(MEGABYTE):
                    pass
    return f"{sum(sent) / len(REQUEST) / target.seconds:,.0f} requests a second"


def never_reading(target: Target) -> str:
    return _send_and_never_read(target, REQUEST * 1000, len(REQUEST))


def unread_fetches(target: Target) -> str:
    """Each asks for all there is of a topic with many megabytes, over and over."""
    request = fetched(BAIT)
    return _send_and_never_read(target, request * 100, len(request))


def _send_and_never_read(target: Target, block: bytes, request_bytes: int) -> str:
    connections = [socket.socket() for _ in range(max(target.many // 20, 10))]
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(target.address)
        connection.setblocking(False)
    sent = [0] * len(connections)
    for _ in target.moments():
        for number, connection in enumerate(connections):
            with suppress(OSError):
                sent[number] += connection.send(block[sent[number] % request_bytes :])
        time.sleep(0.01)
    closed = ended(connections)
    return f"{len(connections)} connections, {closed} closed, {sum(sent) / 1e6:.1f} MB sent"


def half_closed(target: Target) -> str:
    """They ask for what will not come and close their own half; then the other one, or not."""
    waiting = fetched(BAIT, max_wait_ms=FOREVER_MS, min_bytes=FOREVER_MS)
    held: list[socket.socket] = []
    tried = 0
    for _ in target.moments():
        connection = target.connect()
        connection.sendall((REQUEST, waiting, REQUEST + waiting)[tried % 3])
        connection.shutdown(socket.SHUT_WR)
        tried += 1
        if len(held) < target.many:
            held.append(connection)
        else:
            connection.close()
    return f"{tried} connections, {ended(held)} of {len(held)} closed by the broker"


def large_halves(target: Target) -> str:
    connections = target.connected(30)
    for connection in connections:
        connection.sendall(struct.pack(">i", 100 * MEGABYTE))
        connection.setblocking(False)
    sent = 0
    block = bytes(256 * 1024)
    for _ in target.moments():
        for connection in connections:
            with suppress(OSError):
                sent += connection.send(block)
        time.sleep(0.001)
    return f"{len(connections)} requests of 100 MB, {sent / 1e6:,.0f} MB sent"


def idle(target: Target) -> str:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10 * target.many, hard - 500)
    connections = []
    for _ in range(count):
        connections.append(target.connect())
        connections[-1].sendall(REQUEST)
        assert connections[-1].recv(1000)
    print(len(connections), flush=True)
    time.sleep(target.seconds)
    return f"{len(connections)} connections, all answered"


ATTACKS: Final[dict[str, Callable[[Target], str]]] = {
    attack.__name__.replace("_", " "): attack
    for attack in (
        idle,
        half_frames,
        wrong_lengths,
        random_bytes,
        random_bodies,
        hostile_values,
        decompression_bombs,
        slow_connections,
        connection_storm,
        pipelined_flood,
        never_reading,
        unread_fetches,
        half_closed,
        large_halves,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.server.attacks", description=__doc__)
    parser.add_argument("names", help="one, or some at once with commas between them")
    parser.add_argument("address")
    parser.add_argument("seconds", type=float)
    parser.add_argument("many", type=int)
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    target = Target((host, int(port)), given.seconds, given.many)
    attacks = [ATTACKS[name] for name in given.names.split(",")]
    with ThreadPoolExecutor(len(attacks)) as threads:
        for did in threads.map(lambda attack: attack(target), attacks):
            print(did)


if __name__ == "__main__":
    main()
