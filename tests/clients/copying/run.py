"""A topic that is copied exactly once, though everybody is killed: `make copy`.

    python -m tests.clients.copying.run --records 1000000 --kills 60

Copiers in a group read, write and commit offsets in transactions. They and the broker are killed
with -9 at random moments, and come back. Each record is in the copy once, in order, whatever had to
be begun again.
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

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from pyk.wire.apis import ApiKey
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pyk.wire.prefixed import ControlType
from tests.clients.copying.copier import COMMITTED, COPY, FAILED, GROUP, SOURCE
from tests.clients.copying.processes import Copiers, python_copier
from tests.clients.mortal import mortal_pyk
from tests.clients.raw import RawClient
from tests.clients.stored import create_topic, stored_markers

PARTITIONS: Final = 4
COPIERS: Final = 2
PATIENCE: Final = 120.0
"""Seconds in which something must have been copied."""
LOOKED_EVERY: Final = 0.02
DELAY: Final = 0.2
"""A kill comes at any moment up to so many seconds after its number of records is copied."""
BROKER = "broker"


@dataclass(frozen=True, kw_only=True)
class Plan:
    records: int
    at_once: int
    kills: int
    """About half of them of the broker, and half of copiers."""
    seed: int = 0
    command: Callable[[str], list[str]] = python_copier
    say: Callable[[str], object] = lambda line: None


class Copied(NamedTuple):
    """What there was to copy, what it took, and what is wrong with the copy."""

    records: int
    transactions: int
    """As far as copiers could say so before they were killed."""
    aborted: int
    """Of those that had written something."""
    failed: int
    """How often copiers had to begin anew."""
    kills: Counter[str]
    seconds: float
    mistakes: list[str]

    def __str__(self) -> str:
        of_copiers = self.kills.total() - self.kills[BROKER]
        verdict = "; ".join(self.mistakes) or "each record is there once, and in order"
        return (
            f"{self.records:,} records in {self.transactions:,} transactions, {self.aborted:,}"
            f" more were aborted, {self.kills[BROKER]} kills of the broker, {of_copiers} of"
            f" copiers, who began anew {self.failed} times, {self.seconds:.0f} s: {verdict}"
        )


class Run:
    def __init__(self, plan: Plan, data_dir: Path) -> None:
        self._plan, self._rng = plan, Random(plan.seed)
        self._broker = mortal_pyk(data_dir)
        address = self._broker.address
        self._copiers = Copiers(plan.command(address), COPIERS, plan.at_once)
        self._kills: Counter[str] = Counter()

    def copy(self) -> Copied:
        with self._broker, closing(self._copiers):
            fill(self._broker.address, self._plan.records)
            self._plan.say(f"{self._plan.records:,} records are there to be copied")
            began = time.perf_counter()
            for number in range(COPIERS):
                self._copiers.start(number)
            copied = -1
            for point in self._points():
                # Those who come back have done something before the next is killed.
                copied = self._wait_for(min(max(point, copied + 1), self._plan.records))
                self._kill_one()
            self._wait_for(self._plan.records)
            took = time.perf_counter() - began
            mistakes = compare(self._broker.address, self._plan.records)
            aborted = count_aborted(self._broker.address)
        said = self._copiers.said
        return Copied(
            records=self._plan.records,
            transactions=said[COMMITTED],
            aborted=aborted,
            failed=said[FAILED],
            kills=self._kills,
            seconds=took,
            mistakes=mistakes,
        )

    def _points(self) -> list[int]:
        """How much is copied when somebody is killed."""
        rng, plan = self._rng, self._plan
        return sorted(rng.randrange(plan.records) for _ in range(plan.kills))

    def _kill_one(self) -> None:
        victim = self._rng.choice([BROKER] * COPIERS + [str(n) for n in range(COPIERS)])
        if self._kills.total() < 2:
            # One of each at least.
            victim = BROKER if not self._kills[BROKER] else "0"
        time.sleep(self._rng.uniform(0, DELAY))
        self._kills[victim] += 1
        if victim == BROKER:
            self._broker.kill()
            self._broker.start()
        else:
            self._copiers.kill(int(victim))
            self._copiers.start(int(victim))

    def _wait_for(self, count: int) -> int:
        """How much is copied then."""
        copied, deadline = -1, time.monotonic() + PATIENCE
        while (found := how_much_is_copied(self._broker.address)) < count:
            if found > copied:
                copied, deadline = found, time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"{found} of {count} after {self._kills}"
            time.sleep(LOOKED_EVERY)
        self._plan.say(f"{found:,} are copied after {self._kills.total()} kills")
        return found


def how_much_is_copied(address: str) -> int:
    """As the group has committed it."""
    wanted = OffsetFetchRequestTopic(name=SOURCE, partition_indexes=list(range(PARTITIONS)))
    request = OffsetFetchRequest(group_id=GROUP, topics=[wanted])
    with RawClient(address) as raw:
        answer = raw.ask(ApiKey.OFFSET_FETCH, 6, request)
    return sum(max(0, each.committed_offset) for t in answer.topics for each in t.partitions)


def fill(address: str, records: int) -> None:
    """The records of a partition are its numbers from 0 on."""
    create_topic(address, SOURCE, PARTITIONS)
    create_topic(address, COPY, PARTITIONS)
    writer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "queue.buffering.max.messages": records + 1,
        }
    )
    for number in range(records):
        value = b"%d" % (number // PARTITIONS)
        writer.produce(SOURCE, value, partition=number % PARTITIONS)
    assert writer.flush(PATIENCE) == 0


def compare(address: str, records: int) -> list[str]:
    """What is wrong with the copy."""
    mistakes = []
    for partition in range(PARTITIONS):
        expected = list(range(len(range(partition, records, PARTITIONS))))
        found = committed_numbers(address, partition)
        if found == expected:
            continue
        twice = sum(times - 1 for times in Counter(found).values())
        missing = len(set(expected) - set(found))
        mistakes.append(f"partition {partition}: {missing} missing, {twice} twice, or in disorder")
    return mistakes


def committed_numbers(address: str, partition: int) -> list[int]:
    """What a reader of committed records finds, to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(COPY, partition, OFFSET_BEGINNING)])
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE
    with closing(consumer):
        while True:
            assert time.monotonic() < deadline, f"{len(found)}, and no end"
            for message in consumer.consume(10_000, LOOKED_EVERY):
                error, value = message.error(), message.value()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                assert value is not None
                found.append(int(value))


def count_aborted(address: str) -> int:
    """Transactions that have left something in the copy that nobody reads."""
    return len(
        {
            (header.producer_id, header.producer_epoch)
            for partition in range(PARTITIONS)
            for header, outcome in stored_markers(address, COPY, partition)
            if outcome == ControlType.ABORT
        }
    )


def main(command: Callable[[str], list[str]] = python_copier) -> None:
    parser = argparse.ArgumentParser(description="Copy a topic exactly once.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--at-once", type=int, default=2_000, help="records to a transaction")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    say = partial(print, flush=True)
    plan = Plan(**vars(options), command=command, say=say)
    with tempfile.TemporaryDirectory() as path:
        copied = Run(plan, Path(path)).copy()
    print(f"{copied}, seed {plan.seed}")
    sys.exit(bool(copied.mistakes))


if __name__ == "__main__":
    main()
