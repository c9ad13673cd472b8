"""Producers, readers and copiers, each in a process of its own, and what they say happens."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.clients.groups.programs.member import Partition
from tests.clients.stage import Actor, Stage
from tests.clients.transactions.coordinator import Described, described
from tests.clients.transactions.kinds import Kind

LONG_MS = 120_000
"""More than any test takes, and less than brokers allow."""
SHORT_MS = 2_000
HEARTBEAT_MS = 150
SHORT_SESSION_MS = 1_500
LONG_SESSION_MS = 30_000


class Producer(Actor[Kind]):
    transactional_id: str

    def begin(self) -> None:
        self.do("begin")

    def send(self, partition: Partition, *values: str) -> None:
        """Each is acknowledged."""
        for value in values:
            self.do("send", partition=partition, value=value)

    def offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        told = [[*where, offset] for where, offset in offsets.items()]
        self.do("offsets", group=group, offsets=told)

    def commit(self) -> None:
        self.do("commit")

    def abort(self) -> None:
        self.do("abort")

    def described(self) -> Described:
        return described(self._play.address, self.transactional_id)


class Reader(Actor[Kind]):
    """Goes on from the beginning of its partitions, and never ends."""

    def __init__(self, play: Play, kind: Kind, name: str) -> None:
        super().__init__(play, kind, name)
        self.values: dict[Partition, list[str]] = defaultdict(list)
        self._offsets: dict[Partition, int] = defaultdict(lambda: -1)

    def wait_for(self, partition: Partition, *values: str) -> None:
        """Until these are what it has read, and nothing else."""

        def has_read() -> bool:
            return len(self.values[partition]) >= len(values)

        self._play.wait_until(has_read, f"{self} has read {len(values)} of {partition}")
        assert self.values[partition] == list(values)

    def note(self, event: dict[str, Any]) -> None:
        if event["event"] != "read":
            super().note(event)
            return
        where, offset = Partition(*event["partition"]), event["offset"]
        assert offset > self._offsets[where], f"{self}: {event} after {self._offsets[where]}"
        self._offsets[where] = offset
        self.values[where].append(event["value"])


class Copier(Actor[Kind]):
    def __init__(self, play: Play, kind: Kind, name: str) -> None:
        super().__init__(play, kind, name)
        self.assignments: list[set[Partition]] = []
        self.copied = 0
        """Records, as far as it was told that they are committed."""
        self.aborted: list[str] = []
        self.is_hanging = False

    def wait_for_copies(self, more: int) -> None:
        wanted = self.copied + more
        self._play.wait_until(lambda: self.copied >= wanted, f"{self} has copied {more} more")

    def wait_until_assigned(self, count: int) -> None:
        """So many partitions at once, since it was last given any."""

        def is_assigned() -> bool:
            return bool(self.assignments) and len(self.assignments[-1]) == count

        self._play.wait_until(is_assigned, f"{self} has {count} partitions")

    def hang(self, write: Callable[[], None]) -> None:
        """In the middle of a transaction: what it has written is acknowledged. It is told before
        there is something to copy, which may take no time at all."""
        self.start("hang")
        write()
        self._play.wait_until(lambda: self.is_hanging, f"{self} hangs in a transaction")

    def go_on(self) -> None:
        self.is_hanging = False
        self.start("go_on")

    def note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assigned":
                self.assignments.append({Partition(*each) for each in event["partitions"]})
            case "copied":
                self.copied += event["count"]
            case "aborted":
                self.aborted.append(event["reason"])
            case "hanging":
                self.is_hanging = True
            case _:
                super().note(event)


class Play(Stage[Kind]):
    """All who take part in a test."""

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        kind: Kind | None = None,
        timeout_ms: int = LONG_MS,
    ) -> Producer:
        """With its id initialised, whoever had that before."""
        producer = Producer(self, kind or self.kind, f"producer-{uuid.uuid4()}")
        producer.transactional_id = transactional_id or producer.name
        self._begin(
            producer,
            "produce",
            transactional_id=producer.transactional_id,
            timeout_ms=timeout_ms,
        )
        return producer

    def reader(
        self,
        partitions: Iterable[Partition],
        isolation: str = "read_committed",
        *,
        kind: Kind | None = None,
    ) -> Reader:
        reader = Reader(self, kind or self.kind, f"reader-{uuid.uuid4()}")
        self._begin(reader, "read", partitions=list(partitions), isolation=isolation)
        return reader

    def copier(
        self,
        group: str,
        source: str,
        target: str,
        *,
        timeout_ms: int = LONG_MS,
        session_ms: int = LONG_SESSION_MS,
    ) -> Copier:
        """Each has a transactional id of its own, as KIP-447 has it."""
        copier = Copier(self, self.kind, f"copier-{uuid.uuid4()}")
        self._begin(
            copier,
            "copy",
            group=group,
            source=source,
            target=target,
            transactional_id=copier.name,
            timeout_ms=timeout_ms,
            session_ms=session_ms,
            heartbeat_ms=HEARTBEAT_MS,
        )
        return copier

    def _begin(self, actor: Actor[Kind], do: str, **details: object) -> None:
        self.enter(actor, do, name=actor.name, servers=self.address, **details)
