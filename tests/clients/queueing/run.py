"""A queue that is worked through, though everybody is killed: `make queue`.

    python -m tests.clients.queueing.run --records 100000 --kills 80

Workers of a share group die over some records, and do not want others. They and the broker are
killed with -9 at random moments besides, and come back. Each good record is processed, none is
delivered more often than the limit, and what is poisoned is set aside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import Producer

from tests.clients.brokers import options_for
from tests.clients.mortal import mortal_pyk
from tests.clients.queueing.group import positions, set_terms
from tests.clients.queueing.judge import Verdict, judge, read_letters
from tests.clients.queueing.processes import Command, Workers, by_librdkafka, on_the_wire
from tests.clients.queueing.work import (
    DELIVERIES_MAX,
    GROUP,
    LETTERS,
    PARTITIONS,
    TOPIC,
    poisoned,
    read_diary,
)
from tests.clients.stored import create_topic

PATIENCE: Final = 120.0
"""Seconds in which something must have been worked through."""
LOOKED_EVERY: Final = 0.02
DELAY: Final = 0.2
"""A kill comes at any moment up to so many seconds after its number of records is reached."""
BATCH: Final = 100
"""Records in a batch: a worker gets whole ones."""
BROKER: Final = "broker"
WORKER: Final = "worker"
OPTIONS: Final = {
    # Who is killed says no goodbye, and its place is another's soon.
    "group.share.session.timeout.ms": "3000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
}
TERMS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.record.lock.duration.ms": "15000",
    "errors.deadletterqueue.topic.name": LETTERS,
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    records: int
    workers: int = 10
    kills: int
    """Of which one in four is of the broker. Those who die over a record come to them."""
    seed: int = 0
    command: Command = by_librdkafka
    say: Callable[[str], object] = lambda line: None


class Worked(NamedTuple):
    """What there was to do, what it took, and what is wrong with it."""

    records: int
    kills: Counter[str]
    died: int
    seconds: float
    verdict: Verdict

    def __str__(self) -> str:
        verdict = self.verdict
        outcome = "; ".join(verdict.mistakes) or "all is as it should be"
        return (
            f"{self.records:,} records, {len(poisoned(self.records))} of them poisoned, in"
            f" {verdict.deliveries:,} deliveries, {verdict.redelivered:,} more than once,"
            f" {self.kills[BROKER]} kills of the broker, {self.kills[WORKER]} of workers, and"
            f" {self.died} died, {verdict.letters_twice}"
            f" letters twice, {self.seconds:.0f} s: {outcome}"
        )


class Run:
    def __init__(self, plan: Plan, home: Path) -> None:
        self._plan, self._rng = plan, Random(plan.seed)
        self._broker = mortal_pyk(home / "data", *options_for(OPTIONS))
        self._diary = home / "diary"
        command = plan.command(self._broker.address, self._diary)
        self._workers = Workers(command, plan.workers)
        self._kills: Counter[str] = Counter()
        self._broker_kills_ms: list[int] = []

    def work(self) -> Worked:
        with self._broker, closing(self._workers):
            fill(self._broker.address, self._plan.records)
            self._plan.say(f"{self._plan.records:,} records are there to be worked through")
            began = time.perf_counter()
            self._workers.start()
            for point in self._points():
                self._wait_for(point)
                self._kill_one()
            self._wait_for(self._plan.records)
            took = time.perf_counter() - began
            mistakes = unfinished(self._broker.address, self._plan.records)
            letters = read_letters(self._broker.address)
        verdict = judge(self._plan.records, read_diary(self._diary), letters, self._broker_kills_ms)
        verdict = verdict._replace(mistakes=[*mistakes, *verdict.mistakes])
        return Worked(self._plan.records, self._kills, self._workers.died, took, verdict)

    def _points(self) -> list[int]:
        """How much is done when somebody is killed."""
        rng, plan = self._rng, self._plan
        return sorted(rng.randrange(plan.records) for _ in range(plan.kills))

    def _kill_one(self) -> None:
        victim = BROKER if self._kills.total() % 4 == 1 else WORKER
        time.sleep(self._rng.uniform(0, DELAY))
        self._kills[victim] += 1
        if victim == BROKER:
            self._broker.kill()
            self._broker_kills_ms.append(int(time.time() * 1000))
            self._broker.start()
        else:
            self._workers.kill(self._rng.randrange(self._plan.workers))

    def _wait_for(self, count: int) -> None:
        done, deadline = -1, time.monotonic() + PATIENCE
        while (found := done_with(self._broker.address, self._plan.records)) < count:
            if found > done:
                done, deadline = found, time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"{found} of {count} after {self._kills}"
            self._workers.replace_dead()
            time.sleep(LOOKED_EVERY)
        self._plan.say(
            f"{found:,} are done with after {self._kills.total()} kills, {self._workers.died} died"
        )


def fill(address: str, records: int) -> None:
    create_topic(address, TOPIC, PARTITIONS)
    create_topic(address, LETTERS)
    set_terms(address, GROUP, TERMS)
    writer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "queue.buffering.max.messages": records + 1,
            "batch.num.messages": BATCH,
        }
    )
    for number in range(records):
        writer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert writer.flush(PATIENCE) == 0


def done_with(address: str, records: int) -> int:
    """As far as the group has begun at all."""
    lags = [each.lag for each in positions(address, GROUP, TOPIC, PARTITIONS)]
    return -1 if -1 in lags else records - sum(lags)


def unfinished(address: str, records: int) -> list[str]:
    """What is not as it is when everything is done with, and nothing is in flight."""
    return [
        f"partition {each.partition_index} is at {each.start_offset} with a lag of {each.lag}"
        for each in positions(address, GROUP, TOPIC, PARTITIONS)
        if each.lag != 0
        or each.start_offset != len(range(each.partition_index, records, PARTITIONS))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Work through a queue.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--kills", type=int, default=80)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--wire", action="store_true", help="workers without a client's library")
    options = vars(parser.parse_args())
    command = on_the_wire if options.pop("wire") else by_librdkafka
    plan = Plan(**options, command=command, say=partial(print, flush=True))
    with tempfile.TemporaryDirectory() as path:
        worked = Run(plan, Path(path)).work()
    print(f"{worked}, seed {plan.seed}")
    sys.exit(bool(worked.verdict.mistakes))


if __name__ == "__main__":
    main()
