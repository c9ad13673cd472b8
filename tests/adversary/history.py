"""Histories of transactional producers in a hostile network, by their seeds: `make adversary`.

    python -m tests.adversary.history --seeds 300              both versions, with pyk
    python -m tests.adversary.history --address HOST:PORT      the same with a broker that runs

A history has some transactional ids. Each has a client who does as clients do: it sends again what
was not answered, or aborts; it commits only what was acknowledged; it may crash, and a successor
comes, while it goes on as a zombie. The network holds any request, delivers it much later, or loses
the answer. At the end all that is held is delivered, everybody is replaced, and the oracle looks.

With the second version of transactions there must be no anomaly. With the first there must be some
in some histories: it has a hole, and an oracle that never sees it would be none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import trio

from pyk.errors import ErrorCode
from tests.adversary.attacked import Attacked, make_ready
from tests.adversary.life import Life
from tests.adversary.oracle import Anomaly, Transaction
from tests.adversary.producer import V1, V2
from tests.adversary.proxy import Caught, open_adversary
from tests.clients.brokers import running
from tests.clients.stored import create_topic, wait_until_known

IDS: Final = 2
PARTITIONS: Final = 3
STEPS: Final = 40
ZOMBIES_ACT: Final = 0.15
DELIVERED: Final = 0.25
AT_A_TIME: Final = 50
NAMES: Final = {V1: "v1", V2: "v2"}


@dataclass
class Result:
    """What came of histories."""

    histories: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    """Requests that came late, by their kinds."""
    anomalies: dict[int, list[Anomaly]] = field(default_factory=dict)
    """By seeds that have some."""

    def __str__(self) -> str:
        counted = ", ".join(f"{n:,} {name.lower()}" for name, n in sorted(self.outcomes.items()))
        late = ", ".join(f"{n:,} {name}" for name, n in sorted(self.late.items()))
        found = Counter(each.name for every in self.anomalies.values() for each in every)
        return (
            f"{self.histories:,} histories, {self.outcomes.total():,} transactions ({counted}),"
            f" {self.late.total():,} requests came late ({late}):"
            f" anomalies in {len(self.anomalies)} histories {dict(found) or ''}".rstrip()
        )


class History:
    """One transactional id: who has it, who had it, and what is on its way."""

    def __init__(self, attacked: Attacked, number: int, version: int, rng: Random) -> None:
        self._attacked, self._version, self._rng = attacked, version, rng
        self._name = f"writer-{number}"
        self.transactions: list[Transaction] = []
        self._lives: list[Life] = []
        self._held: list[Caught] = []
        self.late: Counter[str] = Counter()

    @property
    def transactional_id(self) -> str:
        return self._lives[0].transactional_id

    async def run(self) -> None:
        for _ in range(STEPS):
            if not self._lives or self._lives[-1].is_over or self._lives[-1].is_given_up:
                await self._begin_life()
            else:
                await self._choose().step()
            self._collect()
            if self._held and self._rng.random() < DELIVERED:
                await self._deliver(self._rng.randrange(len(self._held)))

    async def finish(self) -> None:
        """Deliver what is held, in any order, and replace whoever is there."""
        self._collect()
        while self._held:
            await self._deliver(self._rng.randrange(len(self._held)))
        last = self._attacked.new_producer(self._name, self._version)
        assert await last.init() == ErrorCode.NONE

    async def _begin_life(self) -> None:
        producer = self._attacked.new_producer(self._name, self._version)
        life = Life(producer, self._attacked.partitions, self.transactions, self._rng)
        self._lives.append(life)
        await life.begin()

    def _choose(self) -> Life:
        """The one who has the id, or sometimes one who does not know that it has been replaced."""
        zombies = [life for life in self._lives[:-1] if not life.is_over]
        if zombies and self._rng.random() < ZOMBIES_ACT:
            return self._rng.choice(zombies)
        return self._lives[-1]

    def _collect(self) -> None:
        for life in self._lives:
            self._held += life.take_caught()

    async def _deliver(self, at: int) -> None:
        caught = self._held.pop(at)
        self.late[caught.request.key.name] += 1
        await caught.deliver()


async def run_history(address: str, seed: int, version: int, result: Result) -> list[Anomaly]:
    """One history, by its seed. What is wrong with it."""
    topic = f"history-{NAMES[version]}-{seed}-{time.monotonic_ns()}"
    create_topic(address, topic, PARTITIONS)
    wait_until_known(address, topic, PARTITIONS)
    async with open_adversary(address) as adversary:
        attacked = Attacked(adversary, topic, PARTITIONS)
        histories = [
            History(attacked, number, version, Random(f"{seed}-{number}")) for number in range(IDS)
        ]
        async with trio.open_nursery() as nursery:
            for history in histories:
                nursery.start_soon(history.run)
        for history in histories:
            await history.finish()
        transactions = [each for history in histories for each in history.transactions]
        groups = [history.transactional_id for history in histories]
        found = await attacked.anomalies(transactions, groups)
        await attacked.close()
    result.histories += 1
    result.outcomes.update(each.outcome.name for each in transactions)
    for history in histories:
        result.late.update(history.late)
    if found:
        result.anomalies[seed] = found
    return found


def run_histories(address: str | None, seeds: range, version: int) -> Result:
    """With the broker that runs there, or with a new one for some of them at a time: each leaves
    topics behind, which a broker takes its time to close."""
    result = Result()
    for start in range(0, len(seeds), AT_A_TIME):
        with _broker(address) as at:
            make_ready(at)
            for seed in seeds[start : start + AT_A_TIME]:
                trio.run(run_history, at, seed, version, result)
        print(f"{NAMES[version]}: {result}", flush=True)
    return result


@contextmanager
def _broker(address: str | None) -> Iterator[str]:
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory() as path, running(Path(path)) as broker:
        yield broker.address


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack transactions through the network.")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--address", help="of a broker that runs, in place of a new pyk")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    began = time.perf_counter()
    results = {version: run_histories(options.address, seeds, version) for version in (V2, V1)}
    took = time.perf_counter() - began
    print(f"{took:.0f} s, seeds {seeds.start} to {seeds.stop - 1}")
    for seed, found in results[V2].anomalies.items():
        print(f"seed {seed}:", *found, sep="\n    ", file=sys.stderr)
    if results[V2].anomalies:
        sys.exit("v2: there are anomalies, and there must be none")
    if not results[V1].anomalies:
        sys.exit("v1: there are no anomalies: the oracle does not see the hole that is there")


if __name__ == "__main__":
    main()
