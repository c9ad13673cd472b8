"""Members of share groups, each in a process of its own, and what they say happens to them.

Whatever a test is about, this holds at every moment, and breaks the test where it does not: what
the broker has confirmed to be accepted or rejected is never handed out again.
"""

from __future__ import annotations

import itertools
import signal
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.clients.groups.group import producer as plain_producer
from tests.clients.groups.processes import Process, Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.queues.coordinator import assignments, configure, progress
from tests.clients.queues.kinds import Kind
from tests.clients.queues.programs.member import Got, Join, Place
from tests.clients.stored import create_topic, wait_until_known

if TYPE_CHECKING:
    from confluent_kafka import Producer

WAIT = 60.0
"""Seconds after which what is waited for will not come any more."""
PATIENCE = 10.0
POLL_SECONDS = 0.1
MOMENT_SECONDS = 0.5
"""How long a member looks for what it is not to find."""
TURN_SECONDS = 0.2
RECORDS_MAX = 500
SHOWN_EVENTS = 30
SHOWN_LINES = 60


class Outcome(NamedTuple):
    """Of acknowledgements, as a client has told it later."""

    partition: Partition
    offsets: tuple[int, ...]
    error: str | None


class Member:
    def __init__(self, play: Play, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.outcomes: list[Outcome] = []
        self.taken: list[Got] = []
        """All that it was handed, in that order, and so below."""
        self.kept: list[Got] = []
        """What it has accepted while it worked by itself, and heard so."""
        self.failures: list[str] = []
        self.is_closed = False
        self._play = play
        self._process: Process = play.processes.take(kind.program())
        self._answers: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"{self.kind.name} {self.name}"

    # What it is told to do

    def start(self, do: str, **details: object) -> None:
        self._process.tell(do, **details)

    def answer(self, do: str) -> dict[str, Any]:
        """To what was started."""
        self._play.wait_until(lambda: bool(self._answers), f"{self} has answered to {do}")
        return self._answers.pop(0)

    def do(self, do: str, **details: object) -> dict[str, Any]:
        self.start(do, **details)
        answer = self.answer(do)
        assert answer["event"] == "done", f"{self} was to {do}, and said {answer}"
        return answer

    def attempt(self, do: str, **details: object) -> str | None:
        """Why it was refused, None if it is done."""
        self.start(do, **details)
        answer = self.answer(do)
        return None if answer["event"] == "done" else str(answer["reason"])

    def poll(self, seconds: float = WAIT) -> list[Got]:
        """The first records that come. Of one that has something left to acknowledge, nothing
        more comes, and its client may not even ask."""
        records = [Got(*each) for each in self.do("poll", seconds=seconds)["records"]]
        self.taken += records
        self._play.note_taken(records)
        return records

    def poll_nothing(self) -> None:
        assert self.poll(MOMENT_SECONDS) == []

    def gather(self, count: int) -> list[Got]:
        """Poll and accept until it has got so many, and no more."""
        found: list[Got] = []
        while len(found) < count:
            records = self.poll()
            assert records, f"{self} has got {found} of {count}"
            self.settle(records)
            found += records
        assert len(found) == count, found
        return found

    def acknowledge(self, records: Iterable[Got], how: str = "accept") -> None:
        self.do("acknowledge", places=[Place(*each[:3]) for each in records], how=how)

    def renew(self, records: Iterable[Got]) -> None:
        """Ask for more time with them, and be granted it."""
        self.do("renew", places=[Place(*each[:3]) for each in records])

    def commit(self) -> dict[Partition, str | None]:
        """What became of each partition's acknowledgements."""
        outcomes = self.do("commit")["outcomes"]
        return {Partition(topic, number): error for topic, number, error in outcomes}

    def settle(self, records: list[Got], how: str = "accept") -> None:
        """Say what became of them, and hear that it is known."""
        self.acknowledge(records, how)
        outcomes = self.commit()
        assert outcomes == dict.fromkeys({each.partition for each in records}), outcomes
        if how in ("accept", "reject"):
            self._play.note_done(records)

    def work(self) -> None:
        """Take, accept and commit by itself until it is told anything else."""
        self.start("work")

    # Its end

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

    # What it says

    def note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "done" | "refused":
                self._answers.append(event)
            case "outcome":
                where = Partition(*event["partition"])
                self.outcomes.append(Outcome(where, tuple(event["offsets"]), event["error"]))
            case "taken":
                records = [Got(*each) for each in event["records"]]
                self.taken += records
                self._play.note_taken(records)
            case "kept":
                records = [Got(*each) for each in event["records"]]
                self.kept += records
                self._play.note_done(records)
            case "failed":
                self.failures.append(event["reason"])
            case _:
                assert event["event"] == "closed", event
                self.is_closed = True


class Play:
    """A share group, its topics, and all who take part in a test."""

    def __init__(self, address: str, kind: Kind, processes: Processes) -> None:
        self.address = address
        self.kind = kind
        self.processes = processes
        self.group = f"group-{uuid.uuid4()}"
        self._members: dict[str, Member] = {}
        self._seen: list[dict[str, Any]] = []
        self._done: set[Place] = set()
        self._plain: Producer | None = None

    def end(self) -> None:
        """Whoever is there is closed, or killed where that takes long: a test may have failed."""
        members = [each for each in self._members.values() if not each.has_ended]
        for each in members:
            each.start("close")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not all(each.is_closed for each in members):
            self.take_in(POLL_SECONDS)
        for each in list(self._members.values()):
            each.see_off()

    # What there is

    def topic(self, partitions: int = 1, **configs: str) -> list[Partition]:
        """The partitions of a new one."""
        name = f"topic-{uuid.uuid4()}"
        create_topic(self.address, name, partitions, **configs)
        wait_until_known(self.address, name, partitions)
        return [Partition(name, number) for number in range(partitions)]

    def configure(self, **configs: str) -> None:
        """The group. The keys have underscores for dots."""
        found = {name.replace("_", "."): value for name, value in configs.items()}
        configure(self.address, self.group, found)

    def write(self, partition: Partition, *values: str, timestamp_ms: int = 0) -> None:
        """All are acknowledged."""
        self._plain = self._plain or plain_producer(self.address)
        failures: list[object] = []
        for value in values:
            self._plain.produce(
                partition.topic,
                value,
                partition=partition.number,
                timestamp=timestamp_ms,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert self._plain.flush(WAIT) == 0
        assert failures == []

    def member(
        self,
        *topics: str,
        is_explicit: bool = True,
        records_max: int = RECORDS_MAX,
        is_strict: bool = False,
        kind: Kind | None = None,
    ) -> Member:
        """One that has joined, or is about to: its client does that while it polls."""
        member = Member(self, kind or self.kind, f"member-{uuid.uuid4()}")
        self._members[member.name] = member
        joined = Join(
            name=member.name,
            servers=self.address,
            group=self.group,
            topics=list(topics),
            is_explicit=is_explicit,
            records_max=records_max,
            is_strict=is_strict,
        )
        member.do("join", **joined.as_command())
        return member

    def wait_until_left(self, partition: Partition, count: int) -> None:
        """Until the group has so many records left that are not done with."""

        def is_so() -> bool:
            found = progress(self.address, self.group).get(partition)
            return found is not None and found.lag == count

        self.wait_until(is_so, f"{self.group} has {count} left of {partition}")

    def wait_until_assigned(self, *expected: set[Partition]) -> None:
        """Until these are what the members have, in any order."""

        def is_assigned() -> bool:
            found = assignments(self.address, self.group)
            return sorted(map(sorted, found)) == sorted(map(sorted, expected))

        self.wait_until(is_assigned, f"the members of {self.group} have {expected}")

    def poll(self, *members: Member) -> tuple[Member, list[Got]]:
        """Who gets the next records, and which. Clients may fetch before they are polled, so that
        nobody knows which of several members is next."""
        deadline = time.monotonic() + WAIT
        for member in itertools.cycle(members):
            records = member.poll(TURN_SECONDS)
            if records:
                return member, records
            assert time.monotonic() < deadline, self._explain(f"nothing came to {members}")
        raise AssertionError

    def gather(self, count: int, *members: Member) -> list[Got]:
        """Have them poll and accept until they have got so many, and no more."""
        found: list[Got] = []
        while len(found) < count:
            member, records = self.poll(*members)
            member.settle(records)
            found += records
        assert len(found) == count, found
        return found

    # What happens

    def note_taken(self, records: Iterable[Got]) -> None:
        again = [each for each in records if Place(*each[:3]) in self._done]
        assert not again, self._explain(f"these were done with, and are handed out again: {again}")

    def note_done(self, records: Iterable[Got]) -> None:
        self._done.update(Place(*each[:3]) for each in records)

    def forget_what_is_done(self) -> None:
        """Offsets may mean others from now on."""
        self._done.clear()

    def let_go(self, member: Member) -> None:
        """It says no more, but for what it has said already."""
        self.take_in(0)
        del self._members[member.name]

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, self._explain(f"it never came true that {what}")
            ended = [each for each in self._members.values() if each.has_ended]
            assert not ended, self._explain(f"these have ended by themselves: {ended}")
            self.take_in(POLL_SECONDS)

    def pass_time(self, seconds: float) -> None:
        """What a test is about takes so long, and all the while is listened to the members."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.take_in(left)

    def take_in(self, seconds: float) -> None:
        for event in self.processes.events(seconds):
            member = self._members.get(event["by"])
            if member is not None:  # None: killed, or left over from another test.
                self._seen.append(event)
                member.note(event)

    def _explain(self, what: str) -> str:
        last = "\n".join(str(each)[:500] for each in self._seen[-SHOWN_EVENTS:])
        logged = self.processes.log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
        return (
            f"{what}; there are {list(self._members.values())}; the last events:\n{last}\n"
            "and what was logged:\n" + "\n".join(logged)
        )


def values(records: Iterable[Got]) -> list[str]:
    return [each.value for each in records]


def deliveries(records: Iterable[Got]) -> dict[str, int]:
    """How often each was handed out, this time included."""
    return {each.value: each.deliveries for each in records}
