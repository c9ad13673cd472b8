"""A group of members, each in a process of its own, and what they say happens to them.

Whatever a test is about, these hold at every moment, and break the test where they do not:

- No partition has two owners.
- Nobody reads from a partition that is not his.
- Nobody reads a partition in another order than it has, or with gaps, while it is his.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.clients.groups.coordinator import configure, members_count
from tests.clients.groups.kinds import Kind
from tests.clients.groups.processes import Process, Processes
from tests.clients.groups.programs.member import Join, Partition
from tests.clients.stored import create_partitions, create_topic, wait_until_known

if TYPE_CHECKING:
    from types import TracebackType

WAIT = 90.0
"""Seconds after which what is waited for will not come any more."""
PATIENCE = 15.0
"""Seconds after which the broker is asked what became of a member that does not say it has left."""
POLL_SECONDS = 0.2
SESSION_MS = 30_000
"""Long, so that nobody is taken for dead where nobody is killed, however busy the machine."""
SHORT_SESSION_MS = 1_500
HEARTBEAT_MS = 150
SHOWN_EVENTS = 30


class Read(NamedTuple):
    by: str
    partition: Partition
    offset: int
    value: str


@dataclass(eq=False)
class Member:
    name: str
    kind: Kind
    process: Process = field(repr=False)
    group: Group = field(repr=False)
    partitions: set[Partition] = field(default_factory=set)
    positions: dict[Partition, int] = field(default_factory=dict)
    """The next offsets of those that it has read from since they are its own."""
    reads: list[Read] = field(default_factory=list, repr=False)
    committed: dict[Partition, int] = field(default_factory=dict)
    """The next offsets, as the broker has acknowledged them."""
    rebalances: int = 0
    """How often it was given or lost partitions."""
    commits: int = 0
    """How often it has committed something."""
    commits_done: int = 0
    """How often it has done as it was told, were it nothing."""
    has_left: bool = False

    def leave(self) -> None:
        """As a user of its client leaves. It has committed all that it read.

        librdkafka's close was seen to wait for ever, once in some thousand times, when the member
        next to it had just left. What counts is that the broker has let it go.
        """
        others = self.group.size - 1
        self.process.tell("leave")
        patient_until = time.monotonic() + PATIENCE

        def is_gone() -> bool:
            if self.has_left or time.monotonic() < patient_until:
                return self.has_left
            return members_count(self.group.address, self.group.name) <= others

        self.group.wait_until(is_gone, f"{self.name} has left")
        if not self.has_left:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.group.forget(self)

    def commit(self) -> None:
        """All that it has read so far."""
        before = self.commits_done
        self.process.tell("commit")
        self.group.wait_until(lambda: self.commits_done > before, f"{self.name} has committed")


class Groups:
    """New groups, each with topics of its own."""

    def __init__(self, address: str, kind: Kind, processes: Processes) -> None:
        self.address = address
        self.kind = kind
        self._processes = processes

    def new(
        self,
        *,
        partitions: int = 6,
        topics: int = 1,
        session_ms: int = SESSION_MS,
        name: str | None = None,
    ) -> Group:
        """A group that nobody has joined yet. The topics are there."""
        name = name or f"group-{uuid.uuid4().hex[:8]}"
        made = {f"{name}-topic-{number}": partitions for number in range(topics)}
        for topic, count in made.items():
            create_topic(self.address, topic, count)
            wait_until_known(self.address, topic, count)
        if session_ms != SESSION_MS:
            # Members of the classic protocol bring it along.
            configure(self.address, name, {"consumer.session.timeout.ms": str(session_ms)})
        return Group(name, self.kind, self.address, self._processes, made, session_ms=session_ms)

    def beside(self, other: Group) -> Group:
        """A group that reads the same."""
        name = f"{other.name}-beside"
        counts = Counter(each.topic for each in other.partitions)
        return Group(name, self.kind, self.address, self._processes, counts, session_ms=SESSION_MS)


class Group:
    def __init__(
        self,
        name: str,
        kind: Kind,
        address: str,
        processes: Processes,
        topics: Mapping[str, int],
        *,
        session_ms: int,
    ) -> None:
        self.name = name
        self.kind = kind
        self.address = address
        self.partitions = {
            Partition(topic, number) for topic, count in topics.items() for number in range(count)
        }
        self.session_ms = session_ms
        self.failures: list[str] = []
        """What members say of requests that failed."""
        self.tolerates_failures = session_ms != SESSION_MS
        """Where members or brokers are killed, requests of others may fail."""
        self.reads: list[Read] = []
        self.sent: list[str] = []
        self._processes = processes
        self._members: dict[str, Member] = {}
        """Those that have not left."""
        self._names = (f"{name}/{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
        self._seen: list[dict[str, Any]] = []
        self._producer = producer(address)
        self._not_delivered: list[KafkaError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Who is still there leaves, or is killed where the test has failed."""
        for member in list(self._members.values()):
            if error is None:
                member.leave()
            else:
                member.kill()

    def join(
        self,
        kind: Kind | None = None,
        *,
        pattern: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        commits_always: bool = False,
    ) -> Member:
        kind = kind or self.kind
        member = Member(next(self._names), kind, self._processes.take(kind.program()), self)
        self._members[member.name] = member
        how = Join(
            name=member.name,
            servers=self.address,
            group=self.name,
            topics=sorted({each.topic for each in self.partitions}),
            pattern=pattern,
            protocol=kind.protocol,
            assignor=kind.assignor,
            instance=instance,
            rack=rack,
            session_ms=self.session_ms,
            heartbeat_ms=HEARTBEAT_MS,
            commits_always=commits_always,
        )
        member.process.tell("join", **how.as_command())
        return member

    @property
    def size(self) -> int:
        return len(self._members)

    def forget(self, member: Member) -> None:
        """It is killed and says no more, but for what it has said already."""
        self.take_in(0)
        del self._members[member.name]
        member.partitions.clear()

    def wait_until_shared_by(self, *members: Member) -> None:
        """Evenly, and nobody else has anything."""
        names = ", ".join(each.name for each in members)
        self.wait_until(lambda: self.is_shared_by(members), f"all is shared by {names}")

    def is_shared_by(self, members: Iterable[Member]) -> bool:
        owned = {each.name: each.partitions for each in self._members.values() if each.partitions}
        counts = [len(each.partitions) for each in members]
        return (
            set().union(*owned.values()) == self.partitions
            and owned.keys() <= {each.name for each in members}
            and max(counts) - min(counts) <= 1
        )

    def wait_until_read(self, values: Iterable[str]) -> None:
        wanted = set(values)

        def is_read() -> bool:
            return wanted <= {each.value for each in self.reads}

        self.wait_until(is_read, f"{len(wanted)} records are read")

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, self._explain(f"it never came true that {what}")
            ended = [each.name for each in self._members.values() if each.process.has_ended]
            assert not ended, self._explain(f"these have ended by themselves: {ended}")
            assert self.tolerates_failures or not self.failures, self._explain("a member failed")
            self.take_in(POLL_SECONDS)

    def widen(self, partitions: int) -> None:
        """Each of its topics, to so many partitions."""
        for topic in {each.topic for each in self.partitions}:
            create_partitions(self.address, topic, partitions)
            wait_until_known(self.address, topic, partitions)
            self.partitions |= {Partition(topic, number) for number in range(partitions)}
        self._producer = producer(self.address)  # The old one takes them for unknown, for a while.

    def create_topic(self, topic: str, partitions: int, *, is_wanted: bool = True) -> None:
        create_topic(self.address, topic, partitions)
        wait_until_known(self.address, topic, partitions)
        if is_wanted:
            self.partitions |= {Partition(topic, number) for number in range(partitions)}

    def produce(self, count: int, partitions: Iterable[Partition] | None = None) -> list[str]:
        """So many records to each partition, all of them acknowledged. Their values."""
        values = [
            self._send(partition)
            for _ in range(count)
            for partition in sorted(self.partitions if partitions is None else partitions)
        ]
        self._flush()
        return values

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Records come all the time, to every partition."""
        is_over = Event()

        def send() -> None:
            while not is_over.is_set():
                for partition in sorted(self.partitions):
                    self._send(partition)
                    self._producer.poll(0.002)

        thread = Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        self._flush()

    def _send(self, partition: Partition) -> str:
        value = str(len(self.sent))
        self.sent.append(value)
        self._producer.produce(
            partition.topic, value, partition=partition.number, on_delivery=self._note_delivery
        )
        return value

    def _flush(self) -> None:
        assert self._producer.flush(WAIT) == 0
        assert self._not_delivered == []

    def _note_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._not_delivered.append(error)

    def read_more_than_once(self) -> dict[str, int]:
        counts = Counter(each.value for each in self.reads)
        return {value: count for value, count in counts.items() if count > 1}

    def take_in(self, seconds: float) -> None:
        for event in self._processes.events(seconds):
            member = self._members.get(event["by"])
            if member is not None:  # None: killed in this test, or left over from another.
                self._seen.append(event)
                self._note(member, event)

    def _note(self, member: Member, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assigned":
                self._note_assigned(member, {Partition(*each) for each in event["partitions"]})
            case "revoked" | "lost":
                gone = {Partition(*each) for each in event["partitions"]}
                member.partitions -= gone
                for each in gone:
                    member.positions.pop(each, None)
                member.rebalances += bool(gone)
            case "read":
                read = Read(
                    member.name, Partition(*event["partition"]), event["offset"], event["value"]
                )
                self._note_read(member, read)
            case "committed":
                member.commits += 1
                for topic, number, offset in event["offsets"]:
                    member.committed[Partition(topic, number)] = offset
            case "done":
                member.commits_done += 1
            case "leaving":
                member.partitions.clear()
            case "left":
                member.has_left = True
                del self._members[member.name]
                self._processes.give_back(member.process)
            case _:
                self.failures.append(f"{member.name}: {event['reason']}")

    def _note_assigned(self, member: Member, partitions: set[Partition]) -> None:
        for other in self._members.values():
            both = other.partitions & partitions
            assert other is member or not both, self._explain(
                f"{member.name} was given {sorted(both)}, which {other.name} has"
            )
        member.partitions |= partitions
        member.rebalances += bool(partitions)

    def _note_read(self, member: Member, read: Read) -> None:
        assert read.partition in member.partitions, self._explain(f"{read} has another owner")
        expected = member.positions.get(read.partition, read.offset)
        assert read.offset == expected, self._explain(f"{read} instead of offset {expected}")
        member.positions[read.partition] = read.offset + 1
        self.reads.append(read)
        member.reads.append(read)

    def _explain(self, what: str) -> str:
        last = "\n".join(str(each) for each in self._seen[-SHOWN_EVENTS:])
        return f"{what}; failures: {self.failures}; members: {self._members}; the last:\n{last}"


def producer(address: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
