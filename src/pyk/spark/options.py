"""What `spark.read.format("pyk")` can be told. The names are those of Spark's Kafka source where it
has the same; Spark does not mind their case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from pyk.types import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

NAMES: Final = (
    "path",
    "paths",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "isolation",
    "minPartitions",
    "includeHeaders",
    "failOnDataLoss",
    "damage",
    "pushdown",
)
SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")

T = TypeVar("T")


class InvalidOption(ValueError):
    """The message names the option and says what it can be."""


@dataclass(frozen=True, slots=True)
class Named:
    """All partitions of these topics, which must be there."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Matching:
    """All partitions of topics of whose names a part matches, but for Kafka's own."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions, which must be there."""

    partitions: frozenset[TopicPartition]


Selection: TypeAlias = Named | Matching | Assigned


@dataclass(frozen=True, slots=True)
class Offsets:
    """An end of what is read: an offset of each partition, or EARLIEST or LATEST."""

    by_partition: Mapping[TopicPartition, int]
    default: int | None = None
    """Of the others. Without one, all must be given."""


@dataclass(frozen=True, slots=True)
class Times:
    """An end of what is read: the first record with a time at or after this, in milliseconds."""

    by_partition: Mapping[TopicPartition, int]
    default: int | None = None


Bound: TypeAlias = Offsets | Times


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    paths: tuple[Path, ...]
    selection: Selection
    starting: Bound = Offsets({}, EARLIEST)
    ending: Bound = Offsets({}, LATEST)
    late_start_is_latest: bool = False
    """Whether to begin at the end where no record is as late as the start that is asked for."""
    is_committed: bool = True
    min_partitions: int = 1
    has_headers: bool = False
    fails_on_data_loss: bool = True
    skips_damage: bool = False
    pushes_down: bool = False
    """Whether conditions say where to look. Not unless it is asked for: Spark 4.1 and 4.2 plan once
    for each `load()`, and a later query without conditions gets the rows of the one before."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Raise InvalidOption."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(given) - {name.lower() for name in NAMES})
        if unknown:
            raise InvalidOption(f"there is no option {', '.join(unknown)}: {', '.join(NAMES)}")
        found = _Given(given)
        return cls(
            paths=_paths(found),
            selection=_selection(found),
            starting=_bound(found, "starting", EARLIEST),
            ending=_bound(found, "ending", LATEST),
            late_start_is_latest=found.choice(
                "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}
            ),
            is_committed=found.choice(
                "isolation", {"read_committed": True, "read_uncommitted": False}
            ),
            min_partitions=found.parsed("minPartitions", "a number above 0", _positive, 1),
            has_headers=found.choice("includeHeaders", {"false": False, "true": True}),
            fails_on_data_loss=found.choice("failOnDataLoss", {"true": True, "false": False}),
            skips_damage=found.choice("damage", {"fail": False, "skip": True}),
            pushes_down=found.choice("pushdown", {"false": False, "true": True}),
        )


class _Given:
    """Options by name, whatever its case."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str:
        return self._values[name.lower()].strip()

    def parsed(self, name: str, what: str, parse: Callable[[str], T], default: T) -> T:
        if name not in self:
            return default
        try:
            return parse(self.text(name))
        except (ValueError, TypeError, AttributeError):
            raise InvalidOption(f"{name} is {what}, and not {self.text(name)!r}") from None

    def choice(self, name: str, choices: Mapping[str, T]) -> T:
        """One of these; the first if it is not given."""
        return self.parsed(
            name,
            " or ".join(choices),
            lambda text: _among(choices, text.lower()),
            next(iter(choices.values())),
        )


def _among(choices: Mapping[str, T], text: str) -> T:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _paths(given: _Given) -> tuple[Path, ...]:
    none: list[str] = []
    listed = given.parsed("path", "a data directory, or several with commas", _names, none)
    listed = listed + given.parsed("paths", "a JSON list of data directories", _strings, none)
    if not listed:
        raise InvalidOption("path is to be a broker's data directory, or several with commas")
    return tuple(Path(each) for each in listed)


def _selection(given: _Given) -> Selection:
    chosen = [name for name in SELECTIONS if name in given]
    if len(chosen) != 1:
        raise InvalidOption(f"one of {', '.join(SELECTIONS)} is to be given, and only one")
    what = "a JSON object of topics with lists of partitions"
    match chosen[0]:
        case "subscribe":
            none: list[str] = []
            return Named(frozenset(given.parsed("subscribe", "topics with commas", _names, none)))
        case "subscribePattern":
            return Matching(given.parsed("subscribePattern", "a pattern", _pattern, ""))
        case _:
            return Assigned(given.parsed("assign", what, _partitions, frozenset()))


def _bound(given: _Given, end: str, default: int) -> Bound:
    """That of the three ways to say it which goes before the others, as in Kafka's source."""
    if (name := f"{end}Timestamp") in given:
        milliseconds = given.parsed(name, "milliseconds since 1970", _natural, 0)
        return Times({}, milliseconds)
    if (name := f"{end}OffsetsByTimestamp") in given:
        what = "a JSON object of topics with objects of partitions and milliseconds since 1970"
        return Times(given.parsed(name, what, lambda text: _numbers(text, 0), {}))
    name, word = f"{end}Offsets", "earliest" if default == EARLIEST else "latest"
    what = f"{word}, or a JSON object of topics with objects of partitions and offsets, {default}"
    return given.parsed(
        name,
        f"{what} for {word}",
        lambda text: (
            Offsets({}, default) if text.lower() == word else Offsets(_numbers(text, 0, default))
        ),
        Offsets({}, default),
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(text)
    return names


def _strings(text: str) -> list[str]:
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(text)
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as wrong:
        raise ValueError(text) from wrong
    return text


def _partitions(text: str) -> frozenset[TopicPartition]:
    found = {
        TopicPartition(topic, _natural(str(number)))
        for topic, numbers in json.loads(text).items()
        for number in numbers
    }
    if not found:
        raise ValueError(text)
    return frozenset(found)


def _numbers(text: str, minimum: int, *also: int) -> dict[TopicPartition, int]:
    """A number for each partition."""
    found = {
        TopicPartition(topic, _natural(partition)): int(number)
        for topic, numbers in json.loads(text).items()
        for partition, number in numbers.items()
    }
    if any(number < minimum and number not in also for number in found.values()):
        raise ValueError(text)
    return found


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _positive(text: str) -> int:
    if not _natural(text):
        raise ValueError(text)
    return int(text)
