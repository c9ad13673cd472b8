"""Ports for servers that have to be told theirs before they start, or that come back to them.

They are below those that the system gives to whoever asks for any, so that nobody gets one between
its choice and its use; and processes whose ids are near each other choose among different ones.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

HOST = "127.0.0.1"
LOWEST = 10_000
GIVEN_TO_ANYBODY = Path("/proc/sys/net/ipv4/ip_local_port_range")
APART = 64


def free_ports(count: int) -> list[int]:
    end = int(GIVEN_TO_ANYBODY.read_text().split()[0])
    candidates = list(range(LOWEST + os.getpid() % APART, end, APART))
    random.SystemRandom().shuffle(candidates)
    found: list[int] = []
    # All are held until the last is found, so that no two are the same.
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                return found
            with suppress(OSError):
                held.enter_context(socket.create_server((HOST, port)))
                found.append(port)
    raise OSError(f"no {count} free ports from {LOWEST} to {end}")
