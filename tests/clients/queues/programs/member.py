"""A member of a share group as a program: told what to do by lines of JSON.

    stdin    join, then poll, acknowledge, renew, commit, commit_later or work, until it is to close
    stdout   done, or refused with a reason: once for every line, but for `work` and `close`

A member does one thing at a time, so that a test has all records in its hand. Told to poll, it says
what it has got, were it nothing. Told to renew, it has asked for more time with these records, and
has still to say what becomes of them. What its client tells it of acknowledgements, it says. Told
to work, it polls, accepts and commits by itself until its next line comes: it says what it has
taken, and what the broker has confirmed that it accepted.

Programs in other languages, in compat_tests/queues/programs, speak the same. As those of groups do,
all write to one pipe, each event in one write, and end when their stdin does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Protocol

from tests.clients.groups.programs.member import Partition, next_command

POLL_SECONDS = 0.1
FETCH_WAIT_MS = 50
METADATA_AGE_MS = 500
WAIT = 90.0
"""Seconds that a client is given for one thing, where it takes a limit."""

Command = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How to be a member. Kafka's words."""

    name: str
    servers: str
    group: str
    topics: list[str]
    is_explicit: bool
    """Whether it says of every record what became of it, or has accepted all when it polls next."""
    records_max: int
    is_strict: bool
    """Whether it never gets more than that, or whole batches."""

    @classmethod
    def parse(cls, command: Command) -> Join:
        return cls(**{field.name: command[field.name] for field in fields(cls)})

    def as_command(self) -> Command:
        return asdict(self)


class Got(NamedTuple):
    """A record that it was handed."""

    topic: str
    number: int
    offset: int
    value: str
    deliveries: int

    @property
    def partition(self) -> Partition:
        return Partition(self.topic, self.number)


class Place(NamedTuple):
    topic: str
    number: int
    offset: int


class Refused(Exception):
    """The broker, or the client before it was asked, has refused. The reason is one word."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a member says of itself."""

    name: str

    def say(self, event: str, **details: object) -> None:
        line = json.dumps({"event": event, "by": self.name, **details})
        os.write(1, line.encode() + b"\n")

    def outcome(self, partition: Partition, offsets: Iterable[int], error: str | None) -> None:
        """Of acknowledgements, as its client has told it."""
        self.say("outcome", partition=partition, offsets=sorted(offsets), error=error)


class Member(Protocol):
    def poll(self, seconds: float) -> list[Got]: ...

    def acknowledge(self, places: list[Place], how: str) -> None:
        """Raise Refused."""

    def renew(self, places: list[Place]) -> None:
        """Return when it is granted. Raise Refused."""

    def commit(self) -> dict[Partition, str | None]:
        """What was refused of each partition. Raise Refused."""

    def commit_later(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    def __call__(self, joined: Join, told: Told) -> Member: ...


def run(client: Client) -> None:
    """Do as stdin says until it ends."""
    sys.stdout = sys.stderr  # Whatever prints must not be taken for an event.
    while True:
        joined = Join.parse(next_command(wait=True) or {})
        told = Told(joined.name)
        member = client(joined, told)
        told.say("done")
        command = next_command(wait=True) or {}
        while command["do"] != "close":
            if command["do"] == "work":
                command = work(member, joined, told)
            else:
                do(member, command, told)
                command = next_command(wait=True) or {}
        member.close()
        told.say("closed")


def do(member: Member, command: Command, told: Told) -> None:
    try:
        told.say("done", **perform(member, command))
    except Refused as refusal:
        told.say("refused", reason=str(refusal))


def perform(member: Member, command: Command) -> Command:
    match command["do"]:
        case "poll":
            return {"records": poll(member, command["seconds"])}
        case "acknowledge":
            places = [Place(*each) for each in command["places"]]
            member.acknowledge(places, command["how"])
        case "renew":
            member.renew([Place(*each) for each in command["places"]])
        case "commit":
            return {"outcomes": [[*where, error] for where, error in member.commit().items()]}
        case _:
            assert command["do"] == "commit_later", command
            member.commit_later()
    return {}


def poll(member: Member, seconds: float) -> list[Got]:
    """The first records that come, within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        records = member.poll(POLL_SECONDS)
        if records or time.monotonic() > deadline:
            return records


def work(member: Member, joined: Join, told: Told) -> Command:
    """Until another command comes."""
    while (command := next_command(wait=False)) is None:
        records = member.poll(POLL_SECONDS)
        if not records:
            continue
        told.say("taken", records=records)
        try:
            if joined.is_explicit:
                member.acknowledge([Place(*each[:3]) for each in records], "accept")
            outcomes = member.commit()
        except Refused as refusal:
            told.say("failed", reason=str(refusal))
            continue
        kept = {where for where, error in outcomes.items() if error is None}
        told.say("kept", records=[each for each in records if each.partition in kept])
    return command
