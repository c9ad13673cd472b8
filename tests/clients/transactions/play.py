"""Producers, readers and copiers, each in a process of its own, and what they say happens."""

from __future__ import annotations

import signal
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tests.clients.groups.group import producer as plain_producer
from tests.clients.groups.processes import Process, Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.stored import create_topic, wait_until_known
from tests.clients.transactions.coordinator import Described, described
from tests.clients.transactions.kinds import Kind

if TYPE_CHECKING:
    from confluent_kafka import Producer as PlainProducer

WAIT = 60.0
"""Seconds after which what is waited for will not come any more."""
PATIENCE = 10.0
POLL_SECONDS = 0.1
LONG_MS = 120_000
"""More than any test takes, and less than brokers allow."""
SHORT_MS = 2_000
HEARTBEAT_MS = 150
SHORT_SESSION_MS = 1_500
LONG_SESSION_MS = 30_000
SHOWN_EVENTS = 30
SHOWN_LINES = 60


class Actor:
    def __init__(self, play: Play, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self._play = play
        self._process: Process = play.processes.take(kind.program())
        self._answers: list[str | None] = []
        """None for what is done, a reason for what is refused."""
        self.is_closed = False

    def __repr__(self) -> str:
        return f"{self.kind.name} {self.name}"

    def attempt(self, do: str, **details: object) -> str | None:
        """What it says: the reason why it was refused, None if it is done."""
        self.start(do, **details)
        return self.outcome(do)

    def start(self, do: str, **details: object) -> None:
        self._process.tell(do, **details)

    def outcome(self, do: str) -> str | None:
        """Of what was started."""
        self._play.wait_until(lambda: bool(self._answers), f"{self} has answered to {do}")
        return self._answers.pop(0)

    def do(self, do: str, **details: object) -> None:
        reason = self.attempt(do, **details)
        assert reason is None, f"{self} was to {do}, and said {reason}"

    def close(self) -> None:
        """As a user of its client closes it."""
        self.start("close")
        self._play.wait_until(lambda: self.is_closed, f"{self} is closed")
        self.see_off()

    def see_off(self) -> None:
        """Its process may be somebody else then, if it is closed."""
        if self.is_closed:
            self._play.let_go(self)
            self._play.processes.give_back(self._process)
        else:
            self.kill()

    @property
    def has_ended(self) -> bool:
        return self._process.has_ended

    def kill(self) -> None:
        self._process.kill()
        self._play.let_go(self)

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "done":
                self._answers.append(None)
            case "refused":
                self._answers.append(event["reason"])
            case _:
                assert event["event"] == "closed", event
                self.is_closed = True


class Producer(Actor):
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


class Reader(Actor):
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


class Copier(Actor):
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

    def hang(self) -> None:
        """In the middle of a transaction: what it has written is acknowledged."""
        self.start("hang")
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


class Play:
    """All who take part in a test."""

    def __init__(self, address: str, kind: Kind, processes: Processes) -> None:
        self.address = address
        self.kind = kind
        self.processes = processes
        self._actors: dict[str, Actor] = {}
        self._seen: list[dict[str, Any]] = []
        self._plain: PlainProducer | None = None

    def end(self) -> None:
        """Whoever is there is closed, or killed where that takes long: a test may have failed."""
        actors = [each for each in self._actors.values() if not each.has_ended]
        for each in actors:
            each.start("close")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not all(each.is_closed for each in actors):
            self.take_in(POLL_SECONDS)
        for each in list(self._actors.values()):
            each.see_off()

    def topic(self, partitions: int = 1) -> list[Partition]:
        """The partitions of a new one."""
        name = f"topic-{uuid.uuid4()}"
        create_topic(self.address, name, partitions)
        wait_until_known(self.address, name, partitions)
        return [Partition(name, number) for number in range(partitions)]

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

    def _begin(self, actor: Actor, do: str, **details: object) -> None:
        self._actors[actor.name] = actor
        actor.do(do, name=actor.name, servers=self.address, **details)

    def write(self, partition: Partition, *values: str) -> None:
        """Without a transaction. All are acknowledged."""
        self._plain = self._plain or plain_producer(self.address)
        failures: list[object] = []
        for value in values:
            self._plain.produce(
                partition.topic,
                value,
                partition=partition.number,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert self._plain.flush(WAIT) == 0
        assert failures == []

    def let_go(self, actor: Actor) -> None:
        """It says no more, but for what it has said already."""
        self.take_in(0)
        del self._actors[actor.name]

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, self._explain(f"it never came true that {what}")
            ended = [each for each in self._actors.values() if each.has_ended]
            assert not ended, self._explain(f"these have ended by themselves: {ended}")
            self.take_in(POLL_SECONDS)

    def take_in(self, seconds: float) -> None:
        for event in self.processes.events(seconds):
            actor = self._actors.get(event["by"])
            if actor is not None:  # None: killed, or left over from another test.
                self._seen.append(event)
                actor.note(event)

    def _explain(self, what: str) -> str:
        last = "\n".join(str(each) for each in self._seen[-SHOWN_EVENTS:])
        logged = self.processes.log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
        return (
            f"{what}; there are {list(self._actors.values())}; the last events:\n{last}\n"
            "and what was logged:\n" + "\n".join(logged)
        )
