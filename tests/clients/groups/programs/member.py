"""A member of a group as a program: told what to do by lines of JSON, telling what happens to it.

    stdin    join (once, or again after it left), commit, leave
    stdout   assigned, revoked, lost, read, committed, leaving, left, failed

Programs in other languages, in compat_tests/groups/programs, speak the same. All that a test has
started write to one pipe, each event in one write: the order in which they are read is the order in
which things happened. A program ends when its stdin does.

A member commits what it has read when it is told to, before it lets go of a partition, and before
it leaves. `leaving` is said before the client closes, because others may be given its partitions
before it is done.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Protocol

POLL_SECONDS = 0.05
METADATA_AGE_MS = 500
FETCH_WAIT_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How to be a member. Kafka's words."""

    name: str
    servers: str
    group: str
    topics: list[str]
    pattern: str | None
    """Instead of topics: a regular expression without anchors, all of whose matches are wanted."""
    protocol: str
    assignor: str | None
    instance: str | None
    rack: str | None
    session_ms: int
    """Of no use to the consumer protocol, where the group has it."""
    heartbeat_ms: int
    commits_always: bool
    """Whether it commits after every poll that brought something."""

    @classmethod
    def parse(cls, command: dict[str, Any]) -> Join:
        return cls(**{field.name: command[field.name] for field in fields(cls)})

    def as_command(self) -> dict[str, Any]:
        return asdict(self)


class Partition(NamedTuple):
    topic: str
    number: int


class Offset(NamedTuple):
    topic: str
    number: int
    offset: int
    """The next to read."""


class Told:
    """What a member says of itself, and what it has read and not committed yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._uncommitted: dict[Partition, int] = {}

    def say(self, event: str, **details: object) -> None:
        line = json.dumps({"event": event, "by": self.name, **details})
        os.write(1, line.encode() + b"\n")

    def assigned(self, partitions: Iterable[Partition]) -> None:
        self.say("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """After what was read of them is committed."""
        self.say("revoked", partitions=sorted(partitions))

    def lost(self, partitions: Iterable[Partition]) -> None:
        gone = sorted(partitions)
        self.uncommitted(gone)
        self.say("lost", partitions=gone)

    def read(self, partition: Partition, offset: int, value: bytes | None) -> None:
        self._uncommitted[partition] = offset + 1
        self.say("read", partition=partition, offset=offset, value=(value or b"").decode())

    def uncommitted(self, partitions: Iterable[Partition] | None = None) -> list[Offset]:
        """Of all, or of some, which are to be committed now."""
        which = self._uncommitted.copy() if partitions is None else partitions
        found = [(each, self._uncommitted.pop(each, None)) for each in which]
        return [Offset(*each, offset) for each, offset in found if offset is not None]

    def committed(self, offsets: Iterable[Offset]) -> None:
        self.say("committed", offsets=list(offsets))

    def failed(self, reason: object) -> None:
        self.say("failed", reason=f"{type(reason).__name__}: {reason}"[:1000])


class Member(Protocol):
    def poll(self) -> None:
        """Wait shortly for records and tell of them."""

    def commit(self) -> None:
        """All that was read, and tell of it."""

    def close(self) -> None:
        """Leave the group as its users do: a static member stays in it."""


def run(join: Callable[[Join, Told], Member]) -> None:
    """Do as stdin says until it ends."""
    sys.stdout = sys.stderr  # Whatever prints must not be taken for an event.
    while True:
        joined = Join.parse(next_command(wait=True) or {})
        told = Told(joined.name)
        member = join(joined, told)
        while True:
            try:
                command = next_command(wait=False)
                if command is None:
                    member.poll()
                    if joined.commits_always:
                        member.commit()
                elif command["do"] == "commit":
                    member.commit()
                    told.say("done")
                else:
                    break
            except Exception as error:
                told.failed(error)
        leave(member, told)


def leave(member: Member, told: Told) -> None:
    try:
        member.commit()
    except Exception as error:
        told.failed(error)
    told.say("leaving")
    member.close()
    told.say("left")


def next_command(*, wait: bool) -> dict[str, Any] | None:
    """None if there is none yet."""
    if not wait and not select.select([0], [], [], 0)[0]:
        return None
    line = bytearray()
    while not line.endswith(b"\n"):
        # Not through a buffer, which `select` knows nothing of.
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        line += byte
    command: dict[str, Any] = json.loads(line)
    return command
