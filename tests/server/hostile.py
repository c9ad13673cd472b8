"""Hostile clients against a server, and a good one that must not notice: `make hostile`.

The server, each kind of attacker and the good client run in processes of their own. Printed are
the good client's latencies before and during each attack, and what the attack did to the server's
memory; at last ten thousand idle connections, and what each of them takes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from pyk.server.binding import Listener
from pyk.server.dispatch import Dispatcher
from pyk.server.limits import Limits
from pyk.server.listeners import open_server
from tests.server.attacks import ATTACKS
from tests.server.clients import ENDPOINTS

SECONDS: Final = 4.0
MEGABYTE: Final = 1024**2
LIMITS: Final = Limits(
    stall_timeout=2.0, buffered_bytes_max=256 * MEGABYTE, send_buffer_bytes=102_400
)
"""Less patience than by default, and less memory: both are to be seen."""
RESIDENT_BYTES_MAX: Final = 700 * MEGABYTE


async def serve() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    listener = Listener("PLAINTEXT", "127.0.0.1", 0)
    async with open_server([listener], Dispatcher(ENDPOINTS, None), limits=LIMITS) as server:
        print(server.addresses[0].port, flush=True)
        await trio.sleep_forever()


@dataclass(frozen=True, slots=True)
class Target:
    process: subprocess.Popen[str]
    port: int
    log: Path

    def memory(self, key: str) -> int:
        """VmRSS: what it takes now. VmHWM: the most that it took."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (found,) = [line for line in lines if line.startswith(key)]
        return int(found.split()[1]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def log_lines(self) -> int:
        return len(self.log.read_text().splitlines())


@contextmanager
def target() -> Iterator[Target]:
    command = [sys.executable, "-m", "tests.server.hostile", "serve"]
    with tempfile.NamedTemporaryFile(prefix="pyk-hostile-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        with process:
            try:
                assert process.stdout is not None
                yield Target(process, int(process.stdout.readline()), Path(log.name))
            finally:
                process.kill()


def started(name: str, port: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.server.attacks", name, str(port), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, "a client failed"
    return out.strip()


def latencies(process: subprocess.Popen[str]) -> str:
    found: dict[str, float] = json.loads(output(process))
    return " / ".join(f"{found[name]:>6,.0f}" for name in ("p50", "p99", "max"))


def attack(name: str, server: Target) -> None:
    before = latencies(started("good", server.port, 1.0))
    lines = server.log_lines()
    server.forget_peak()
    attacker = started(name, server.port, SECONDS)
    if name == "idle":
        idle_memory(attacker, server)
    during = latencies(started("good", server.port, SECONDS - 1.0))
    did = output(attacker)
    peak = server.memory("VmHWM")
    print(
        f"{name:17}{before:>26}{during:>26}{peak / MEGABYTE:>9.0f} MB"
        f"{server.log_lines() - lines:>7}  {did}"
    )
    assert peak < RESIDENT_BYTES_MAX, "memory is not bounded"
    assert server.process.poll() is None, "the server has died"


def idle_memory(attacker: subprocess.Popen[str], server: Target) -> None:
    before = server.memory("VmRSS")
    assert attacker.stdout is not None
    count = int(attacker.stdout.readline())
    each = (server.memory("VmRSS") - before) / count
    print(f"{count:,} idle connections: {each / 1024:.1f} KB each")


def main() -> None:
    with target() as server:
        print(f"the server starts with {server.memory('VmRSS') / MEGABYTE:.0f} MB\n")
        print(f"{'':17}{'good client before, us':>26}{'during, us':>26}{'peak':>12}{'logged':>7}")
        print(
            f"{'':17}{'p50 /    p99 /    max':>26}{'p50 /    p99 /    max':>26}{'':>12}{'lines':>7}"
        )
        for name in ATTACKS:
            attack(name, server)
        print(f"\nthe server ends with {server.memory('VmRSS') / MEGABYTE:.0f} MB")
        log = server.log.read_text()
        assert "Traceback" not in log, log


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve)
    else:
        main()
