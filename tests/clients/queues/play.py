"""Members of share groups, each in a process of its own, and what they say happens to them.

Whatever a test is about, this holds at every moment, and breaks the test where it does not: what
the broker has confirmed to be accepted or rejected is never handed out again.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.clients.groups.coordinator import configure
from tests.clients.groups.processes import Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.queues.coordinator import assignments, progress
from tests.clients.queues.kinds import Kind
from tests.clients.queues.programs.member import Got, Join, Place
from tests.clients.stage import WAIT, Actor, Stage

MOMENT_SECONDS = 0.5
"""How long a member looks for what it is not to find."""
TURN_SECONDS = 0.2
RECORDS_MAX = 500


class Outcome(NamedTuple):
    """Of acknowledgements, as a client has told it later."""

    partition: Partition
    offsets: tuple[int, ...]
    error: str | None


class Member(Actor[Kind]):
    _play: Play

    def __init__(self, play: Play, kind: Kind, name: str) -> None:
        super().__init__(play, kind, name)
        self.outcomes: list[Outcome] = []
        self.taken: list[Got] = []
        """All that it was handed, in that order, and so below."""
        self.kept: list[Got] = []
        """What it has accepted while it worked by itself, and heard so."""
        self.failures: list[str] = []

    # What it is told to do

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

    def settle(self, records: list[Got], how: str = "accept", attempts: int = 1) -> None:
        """Say what became of them, and hear that it is known. With more `attempts`, a client that
        may lose its session in between is handed them once more when their lock is over."""
        self.acknowledge(records, how)
        outcomes = self.commit()
        is_lost = set(outcomes.values()) == {"INVALID_SHARE_SESSION_EPOCH"}
        if is_lost and attempts > 1 and not self.kind.can("keep its session when a poll ends"):
            again = self.poll()
            assert [each[:3] for each in again] == [each[:3] for each in records]
            self.settle(again, how, attempts - 1)
            return
        assert outcomes == dict.fromkeys({each.partition for each in records}), outcomes
        if how in ("accept", "reject"):
            self._play.note_done(records)

    def work(self) -> None:
        """Take, accept and commit by itself until it is told anything else."""
        self.start("work")

    # What it says

    def note(self, event: dict[str, Any]) -> None:
        match event["event"]:
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
                super().note(event)


class Play(Stage[Kind]):
    """A share group, its topics, and all who take part in a test."""

    def __init__(self, address: str, kind: Kind, processes: Processes) -> None:
        super().__init__(address, kind, processes)
        self.group = f"group-{uuid.uuid4()}"
        self._done: set[Place] = set()

    # What there is

    def configure(self, **configs: str) -> None:
        """The group. The keys have underscores for dots."""
        found = {name.replace("_", "."): value for name, value in configs.items()}
        configure(self.address, self.group, found)

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
        joined = Join(
            name=member.name,
            servers=self.address,
            group=self.group,
            topics=list(topics),
            is_explicit=is_explicit,
            records_max=records_max,
            is_strict=is_strict,
        )
        self.enter(member, "join", **joined.as_command())
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
            assert time.monotonic() < deadline, self.explain(f"nothing came to {members}")
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
        assert not again, self.explain(f"these were done with, and are handed out again: {again}")

    def note_done(self, records: Iterable[Got]) -> None:
        self._done.update(Place(*each[:3]) for each in records)

    def forget_what_is_done(self) -> None:
        """Offsets may mean others from now on."""
        self._done.clear()

    def pass_time(self, seconds: float) -> None:
        """What a test is about takes so long, and all the while is listened to the members."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.take_in(left)


def values(records: Iterable[Got]) -> list[str]:
    return [each.value for each in records]


def deliveries(records: Iterable[Got]) -> dict[str, int]:
    """How often each was handed out, this time included."""
    return {each.value: each.deliveries for each in records}
