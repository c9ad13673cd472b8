"""What there is to work on, and the diary that workers keep of it.

A record is its number. Some numbers are poisoned: a worker dies over them, or does not want them,
or never gets anywhere with them. A diary has a line for each thing that happened to a record, in
the order in which things happened, whoever wrote it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

TOPIC, GROUP, LETTERS = "work", "workers", "letters"
PARTITIONS: Final = 4
DELIVERIES_MAX: Final = 10
"""So many that no good record is as often with somebody who dies, be it beside a deadly one."""


class Kind(Enum):
    GOOD = "good"
    DEADLY = "deadly"
    REJECTED = "rejected"
    RELEASED = "released"


EACH: Final = 4000
_KINDS: Final = {
    17: Kind.DEADLY,
    418: Kind.REJECTED,
    619: Kind.RELEASED,
    1416: Kind.REJECTED,
    1617: Kind.RELEASED,
}
"""Of each so many records, which are not good."""


def kind_of(number: int) -> Kind:
    return _KINDS.get(number % EACH, Kind.GOOD)


def poisoned(records: int) -> set[int]:
    return {number for number in range(records) if kind_of(number) is not Kind.GOOD}


class Event(Enum):
    DELIVERED = "d"
    """Before anything is done with it."""
    PROCESSED = "p"
    """Before it is acknowledged: that may come to nothing."""
    ACKNOWLEDGED = "a"
    """The broker has said so."""


class Entry(NamedTuple):
    event: Event
    number: int
    delivery_count: int


class Diary:
    """A file that many processes write to. What one has written survives it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, entries: Iterable[Entry]) -> None:
        lines = [f"{event.value} {number} {count}." for event, number, count in entries]
        if lines:
            # A kill may cut it short: what comes next is in a line of its own then.
            os.write(self._file, "\n".join(["", *lines, ""]).encode())


_LINE: Final = re.compile(r"([dpa]) (\d+) (\d+)\.")


def read_diary(path: Path) -> Iterator[Entry]:
    with path.open() as lines:
        for line in lines:
            if found := _LINE.fullmatch(line.strip()):
                event, number, count = found.groups()
                yield Entry(Event(event), int(number), int(count))
