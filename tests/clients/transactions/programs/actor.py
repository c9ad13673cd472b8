"""Somebody in a play of transactions as a program: told what to do by lines of JSON.

    stdin    produce, read or copy: what to be, until it is told to close
    stdout   done, or refused with a reason: once for every line, but for those below

A producer is told to begin, send, commit offsets, commit and abort. A reader tells of each record
that it comes upon. A copier is a member of a group: it reads records, and in one transaction writes
them to the same partition of another topic and commits their offsets. It tells of partitions that
it is assigned and of transactions that it has committed. Told to hang, it stops in the middle of
the next transaction, says so, and goes on when it is told that.

Programs in other languages, in compat_tests/transactions/programs, speak the same. As those of
groups do, all write to one pipe, each event in one write, and end when their stdin does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tests.clients.groups.programs.member import Offset, Partition, next_command

POLL_SECONDS = 0.05
FETCH_WAIT_MS = 50
METADATA_AGE_MS = 500
RECORDS_MAX = 20
"""Of one transaction of a copier."""
WAIT = 90.0
"""Seconds that a client is given for one thing, where it takes a limit."""

Command = dict[str, Any]


class Found(NamedTuple):
    partition: Partition
    offset: int
    value: bytes


class Refused(Exception):
    """The broker, or the client before it was asked, has refused. The reason is one word."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a program says of itself."""

    name: str

    def say(self, event: str, **details: object) -> None:
        line = json.dumps({"event": event, "by": self.name, **details})
        os.write(1, line.encode() + b"\n")

    def read(self, found: Found) -> None:
        self.say("read", partition=found.partition, offset=found.offset, value=found.value.decode())

    def assigned(self, partitions: Iterable[Partition]) -> None:
        self.say("assigned", partitions=sorted(partitions))

    def copied(self, records: Iterable[Found]) -> None:
        self.say("copied", count=len(list(records)))

    def aborted(self, reason: object) -> None:
        """Something failed: what was read since the last commit is going to be read again."""
        self.say("aborted", reason=f"{type(reason).__name__}: {reason}"[:1000])


@dataclass(slots=True)
class Pause:
    """Where a copier that was told to hang stops, once."""

    told: Told
    is_wanted: bool = False

    def here(self) -> None:
        if self.is_wanted:
            self.is_wanted = False
            self.told.say("hanging")
            command = next_command(wait=True)
            assert command == {"do": "go_on"}, command


class Producer(Protocol):
    def begin(self) -> None: ...

    def send(self, partition: Partition, value: bytes) -> None:
        """Return when it is acknowledged."""

    def offsets(self, group: str, offsets: list[Offset]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Poller(Protocol):
    """A reader or a copier: whatever does a little at a time, by itself."""

    def poll(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    def produce(self, asked: Command) -> Producer:
        """With the transactional id initialised."""

    def read(self, asked: Command, told: Told) -> Poller: ...

    def copy(self, asked: Command, told: Told, pause: Pause) -> Poller: ...


def run(client: Client) -> None:
    """Do as stdin says until it ends."""
    sys.stdout = sys.stderr  # Whatever prints must not be taken for an event.
    while True:
        asked = next_command(wait=True) or {}
        told = Told(asked["name"])
        match asked["do"]:
            case "produce":
                be_producer(client, asked, told)
            case "read":
                poll_until_closed(client.read(asked, told), told, Pause(told))
            case _:
                pause = Pause(told)
                poll_until_closed(client.copy(asked, told, pause), told, pause)


def be_producer(client: Client, asked: Command, told: Told) -> None:
    made: list[Producer] = []
    attempt(told, lambda: made.append(client.produce(asked)))
    while (command := next_command(wait=True) or {})["do"] != "close":
        attempt(told, action(made[0], command))
    for producer in made:
        producer.close()
    told.say("closed")


def action(producer: Producer, command: Command) -> Callable[[], None]:
    match command["do"]:
        case "begin":
            return producer.begin
        case "send":
            where = Partition(*command["partition"])
            return lambda: producer.send(where, command["value"].encode())
        case "offsets":
            offsets = [Offset(*each) for each in command["offsets"]]
            return lambda: producer.offsets(command["group"], offsets)
        case "commit":
            return producer.commit
        case _:
            assert command["do"] == "abort", command
            return producer.abort


def attempt(told: Told, act: Callable[[], None]) -> None:
    try:
        act()
    except Refused as refusal:
        told.say("refused", reason=str(refusal))
    else:
        told.say("done")


def poll_until_closed(poller: Poller, told: Told, pause: Pause) -> None:
    told.say("done")
    while (command := next_command(wait=False)) is None or command["do"] != "close":
        if command is not None:
            pause.is_wanted = True
        poller.poll()
    poller.close()
    told.say("closed")
