"""Hostile clients against `pyk serve`, and a good one that must not notice: `make hostile`.

The broker, each attacker and the good client run in processes of their own. Printed are the good
client's latencies before, during and after each attack, beside those of an echo that is never
attacked, and what the attack did to the broker's memory. At the end all that the good client was
acknowledged must be there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.brokers import running
from tests.clients.stored import create_topic
from tests.server.attacks import ATTACKS
from tests.server.good_client import TOPIC
from tests.server.hostile_requests import BAIT, BAIT_COMPACTED, BATCHES, LURES, fill

MEGABYTE: Final = 1024**2
OPTIONS: Final = (
    ("queued.max.request.bytes", 256 * MEGABYTE),
    # Small enough for an answer that nobody reads to be noticed.
    ("socket.send.buffer.bytes", 102_400),
    ("group.initial.rebalance.delay.ms", 300),
)
"""Less memory than by default: its end is to be seen. And no long wait for more members."""
ATTACK_TIMEOUT: Final = 120.0
RESIDENT_BYTES_MAX: Final = 700 * MEGABYTE
"""That much, one request of 100 MB beyond, twice while it grows, and what the allocator keeps."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of it."""

    seconds: float
    """Before, and after, and three times as long during an attack."""
    many: int


FULL: Final = Scale(seconds=1.5, many=1_000)


class Good:
    """The good client."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "tests.server.good_client", address]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def report(self) -> dict[str, float]:
        """Latencies in microseconds since the last report."""
        return self._ask("report")

    def end(self) -> dict[str, float]:
        """What it was acknowledged, and what of that is lost."""
        return self._ask("end")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, word: str) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the good client has failed"
        found: dict[str, float] = json.loads(line)
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    before: Mapping[str, float]
    during: Mapping[str, float]
    after: Mapping[str, float]
    peak_bytes: int
    logged_lines: int
    did: str
    bytes_each: float = 0.0
    """What an idle connection takes."""


@dataclass(frozen=True, slots=True)
class Siege:
    """A broker, the good client, and whoever is let loose."""

    address: str
    metrics: str
    """Where its figures are."""
    process: subprocess.Popen[str]
    log: Path
    good: Good
    scale: Scale

    def attack(self, name: str) -> Outcome:
        before = self._watched(self.scale.seconds)
        lines = self._log_lines()
        self._forget_peak()
        held = self.memory("VmRSS")
        bytes_each = 0.0
        with self._attacker(name) as attacker:
            assert attacker.stdout is not None
            if name == "idle":
                count = int(attacker.stdout.readline())
                bytes_each = (self.memory("VmRSS") - held) / count
            did = attacker.stdout.read().strip()
        assert attacker.returncode == 0, f"{name}: the attacker failed"
        during = self.good.report()
        peak, logged = self.memory("VmHWM"), self._log_lines() - lines
        after = self._watched(self.scale.seconds)
        assert self.process.poll() is None, f"{name}: the broker has died"
        return Outcome(name, before, during, after, peak, logged, did, bytes_each)

    def attack_with_all(self, names: Iterable[str]) -> int:
        """At the same time. The most memory that the broker took."""
        self._forget_peak()
        with self._attacker(",".join(names)) as attacker:
            assert attacker.wait(ATTACK_TIMEOUT) == 0, "an attacker failed"
        assert self.process.poll() is None, "the broker has died"
        return self.memory("VmHWM")

    def _attacker(self, names: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.server.attacks", names, self.address]
        command += [str(self.scale.seconds * 3), str(self.scale.many)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def _watched(self, seconds: float) -> dict[str, float]:
        self.good.report()
        time.sleep(seconds)
        return self.good.report()

    def memory(self, key: str) -> int:
        """VmRSS: what the broker takes now. VmHWM: the most that it took."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (found,) = [line for line in lines if line.startswith(key)]
        return int(found.split()[1]) * 1024

    def _forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _log_lines(self) -> int:
        return len(self.log.read_text().splitlines())


@contextmanager
def besieged(scale: Scale) -> Iterator[Siege]:
    """Without loss of anything acknowledged, or a bug that shows in the log, at the end."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyk-hostile-")))
        log = stack.enter_context((directory / "log").open("w"))
        options = [word for pair in OPTIONS for word in ("-o", "{}={}".format(*pair))]
        broker = stack.enter_context(running(directory / "data", *options, log=log))
        assert broker.process.stdout is not None
        metrics = broker.process.stdout.readline().split()[-1]
        for topic in (TOPIC, BAIT, *LURES):
            create_topic(broker.address, topic)
        create_topic(broker.address, BAIT_COMPACTED, cleanup_policy="compact")
        fill(broker.address, BAIT, BATCHES)
        good = Good(broker.address)
        stack.callback(good.close)
        good.report()
        yield Siege(broker.address, metrics, broker.process, Path(log.name), good, scale)
        kept = good.end()
        said = Path(log.name).read_text()
        assert "Traceback" not in said, said
        assert kept["lost"] == 0, f"lost {kept['lost']} of {kept['acknowledged']}"
        assert kept["others"] == 0, "somebody else has written to the good client's topic"
        assert kept["acknowledged"] > 0
        print(f"\nthe good client's {kept['acknowledged']:,.0f} records are all there")


def shown(latencies: Mapping[str, float], *names: str) -> str:
    return " / ".join(f"{latencies[name] / 1000:>6.1f}" for name in names)


def row(outcome: Outcome) -> str:
    broker = ("broker_p50", "broker_p99")
    return (
        f"{outcome.name:20}{shown(outcome.before, *broker):>17}"
        f"{shown(outcome.during, *broker, 'broker_max'):>26}"
        f"{shown(outcome.after, *broker):>17}{shown(outcome.during, 'echo_p99'):>8}"
        f"{outcome.peak_bytes / MEGABYTE:>8.0f}{outcome.logged_lines:>7}  {outcome.did}"
    )


def main() -> None:
    names = sys.argv[1:] or list(ATTACKS)
    with besieged(FULL) as siege:
        print(f"the broker starts with {siege.memory('VmRSS') / MEGABYTE:.0f} MB\n")
        print(
            f"{'good client, ms':20}{'before':>17}{'during':>26}{'after':>17}{'echo':>8}"
            f"{'peak':>8}{'logged':>7}"
        )
        print(
            f"{'':20}{'p50 /    p99':>17}{'p50 /    p99 /    max':>26}{'p50 /    p99':>17}"
            f"{'p99':>8}{'MB':>8}{'lines':>7}"
        )
        for name in names:
            outcome = siege.attack(name)
            print(row(outcome), flush=True)
            if outcome.bytes_each:
                print(f"{'':20}{outcome.bytes_each / 1024:.1f} KB for each idle connection")
            assert outcome.peak_bytes < RESIDENT_BYTES_MAX, "memory is not bounded"
        print(f"\nthe broker ends with {siege.memory('VmRSS') / MEGABYTE:.0f} MB")


if __name__ == "__main__":
    main()
