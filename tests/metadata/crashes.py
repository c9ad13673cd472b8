"""An embedded store on a disk that may crash at any moment: part of `make crash`.

Random transactions, several at a time, run on a simulated disk. Before each operation of the disk
the machine is taken to die there, by kill -9 and by power loss, and a copy is opened again:

- It is not reported as damaged.
- It is as it was after one of the transactions, no earlier than the last that was answered.
- All of it is durable now: it is the same after one more crash, and can be written to.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from random import Random

import trio

from pyk.metadata.embedded import EmbeddedStore, open_embedded
from pyk.metadata.journal import Journal
from pyk.metadata.state import LeaseEnded, LeaseGranted, Record, State, Transaction
from pyk.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    LeaseId,
    Operation,
    Put,
    Snapshot,
)
from pyk.offload import at_once
from tests.metadata.stores import DIRECTORY
from tests.simulated_disk import Crashed, SimulatedDisk

SECOND_LIVES = 0.2
"""The share of crashes that are followed by one more while the store is opened."""


class Workload:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.fate = Random(~seed)
        """What crashes leave, so that it does not change what happens without them."""
        self.truth = State()
        self.possible = [summary(self.truth)]
        """What may be found: the state after the last answered record, and after each since."""
        self.answered = 0
        self.begun = 0
        self.points = 0
        self.disk = SimulatedDisk()
        self.disk.watch = self._crash_here

    async def live(self, waves: int) -> None:
        appended = self.rng.choice((1, 400, 1 << 20))
        async with open_embedded(
            self.disk, DIRECTORY, at_once, appended_bytes_min=appended
        ) as store:
            snapshot = await store.range("")
            assert snapshot == Snapshot(self.truth.revision, self.truth.range(""))
            for _ in range(waves):
                if self.rng.random() < 0.2:
                    await self._fail(store)
                async with trio.open_nursery() as nursery:
                    for _ in range(self.rng.choice((1, 1, 2, 5))):
                        nursery.start_soon(self._act, store)

    async def _act(self, store: EmbeddedStore) -> None:
        """One transaction. That it has begun is noted in the order in which they happen."""
        lease = self.rng.choice([None, *self.truth.leases])
        match self.rng.randrange(12):
            case 0:
                number = self._begin(LeaseGranted(LeaseId(self.truth.last_lease + 1), 60))
                await store.grant_lease(60)
            case 1 if lease is not None:
                number = self._begin(LeaseEnded(lease))
                await store.revoke_lease(lease)
            case _:
                compares, operations = self._transaction(lease)
                holds = self.truth.holds(compares)
                number = self._begin(Transaction(tuple(operations)) if holds else None)
                commit = await store.commit(compares, operations)
                assert commit.succeeded == holds
        self._end(number)

    async def _fail(self, store: EmbeddedStore) -> None:
        """One transaction for which there is no space on the disk."""
        self.disk.capacity = self.disk.used + self.rng.randrange(600)
        with suppress(OSError):
            await store.commit([], [Put("huge", bytes(6_000))])
            raise AssertionError("there was space for it")
        self.disk.capacity = None

    def _transaction(self, lease: LeaseId | None) -> tuple[list[Compare], list[Operation]]:
        key = f"k/{self.rng.randrange(6)}"
        compares: list[Compare] = [Absent(key)] if self.rng.random() < 0.3 else []
        size = self.rng.choice((0, 5, 600, 5_000))
        value = self.rng.choice((b"x" * size, self.rng.randbytes(size)))
        return compares, self.rng.choice(
            [
                [Put(key, value, lease)],
                [Put(key, value, lease), Put("last", b"%d" % self.begun), Delete("k/0x")],
                [Delete(key), Put("last", value)],
                [DeletePrefix("k/"), Put("l", b"")],
            ]
        )

    def _begin(self, record: Record | None) -> int:
        self.begun += 1
        if record is not None:
            self.truth.apply(record)
        self.possible.append(summary(self.truth))
        return self.begun

    def _end(self, number: int) -> None:
        if number > self.answered:
            del self.possible[: number - self.answered]
            self.answered = number

    def _crash_here(self) -> None:
        self.disk.watch = None
        for copy in (self.disk.kill9(), self.disk.power(self.fate)):
            copy.capacity = None
            self._check(copy)
            self.points += 1
        self.disk.watch = self._crash_here

    def _check(self, disk: SimulatedDisk) -> None:
        if self.fate.random() < SECOND_LIVES:
            disk.crash_after = self.fate.randint(1, 12)
            with suppress(Crashed):
                opened(disk)
            disk = self.fate.choice((disk.kill9, lambda: disk.power(self.fate)))()
        journal, state = opened(disk)
        found = summary(state)
        assert found in self.possible, "it is not what the answered transactions left, or later"
        _, again = opened(disk.power(self.fate))
        assert summary(again) == found, "what was found is not durable"
        record = Transaction((Put("more", b""),))
        journal.append(record)
        journal.sync(journal.lines)
        state.apply(record)
        _, again = opened(disk.synced())
        assert summary(again) == summary(state), "it cannot be written to"


def opened(disk: SimulatedDisk) -> tuple[Journal, State]:
    journal, state, records = Journal.open(disk, DIRECTORY)
    for record in records:
        state.apply(record)
    return journal, state


def summary(state: State) -> tuple[object, ...]:
    leases = {lease: sorted(held.keys) for lease, held in state.leases.items()}
    return state.revision, tuple(state.range("")), leases, state.last_lease


def run(seed: int, waves: int = 12) -> int:
    """One workload with its crashes. How many there were. Raise AssertionError."""
    workload = Workload(seed)
    # Trio chooses which task goes first by chance of its own.
    trio._core._run._r.seed(seed)
    for _ in range(2):
        trio.run(workload.live, waves)
    return workload.points


def main() -> None:
    parser = argparse.ArgumentParser(description="Crash a metadata store at every point.")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options, _ = parser.parse_known_args()
    began, points, seed = time.perf_counter(), 0, options.seed
    while points < options.points:
        try:
            points += run(seed)
        except BaseException as failed:
            failed.add_note(f"seed {seed}")
            raise
        seed += 1
    took = time.perf_counter() - began
    print(
        f"{points:,} crash points in {seed - options.seed:,} workloads from seed {options.seed}:"
        f" every store was what its transactions made it ({points / took:,.0f} a second)"
    )


if __name__ == "__main__":
    main()
