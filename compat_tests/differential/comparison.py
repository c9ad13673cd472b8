"""Asks both sides the same, and gathers where their answers differ.

What is known to differ is listed by the test, each with its reason. A listed difference that is not
there any more is a failure, so that the list tells the truth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import pytest

from compat_tests.differential.sides import Side, Sides
from pyk.wire.apis import ApiKey, advertised, request_type
from pyk.wire.message import layout

Make: TypeAlias = Callable[[int, Side], Any]
"""A request, for a version and a side: ids and numbers differ between sides."""

ABSENT = "absent"
NAMES = ("name", "group_id", "api_key", "resource_type", "resource_name", "feature")
"""By these, if it has any, an item of a list is told from the others."""
IDENTITIES = (*NAMES, "index", "partition_index", "partition", "member_id", "topic_id")


class Listed(NamedTuple):
    """A difference that is meant."""

    case: str
    """A pattern for the names of cases."""
    where: str
    """A pattern for the lines that say what differs."""
    reason: str


class Answers(NamedTuple):
    kafka: Any
    pyk: Any


@dataclass
class Tally:
    """What a whole run came to."""

    compared: int = 0
    listed: dict[str, Listed] = field(default_factory=dict)
    """By their names."""


class Comparison:
    def __init__(
        self, sides: Sides, listed: Mapping[str, Listed] = {}, unordered: Sequence[str] = ()
    ) -> None:
        self.sides = sides
        self.compared = 0
        self._listed = listed
        self._unordered = unordered
        self._found: list[str] = []
        self._met: set[str] = set()

    @property
    def differences(self) -> list[str]:
        stale = [f"not there any more: {name}" for name in self._listed if name not in self._met]
        return self._found + stale

    def add(
        self, key: ApiKey, case: str, make: Make, since: int = 0, until: int = 99
    ) -> dict[int, Answers]:
        """Ask in all versions. The answers, by version."""
        return {
            version: self.ask(key, version, case, make)
            for version in versions(key)
            if since <= version <= until
        }

    def ask(self, key: ApiKey, version: int, case: str, make: Make) -> Answers:
        answers = Answers(
            *self.sides.each(lambda side: side.ask(key, version, make(version, side)))
        )
        kafka, pyk = (
            self._arranged(side.plain(answer))
            for side, answer in zip(self.sides, answers, strict=True)
        )
        self.judge(f"{key.name} v{version} {case}", kafka, pyk)
        return answers

    def judge(self, case: str, kafka: Any, pyk: Any) -> None:
        """Two answers as they should be the same."""
        self.compared += 1
        for line in differences(kafka, pyk):
            self._note(case, line)

    def _note(self, case: str, line: str) -> None:
        for name, listed in self._listed.items():
            if re.search(listed.case, case) and re.search(listed.where, line):
                self._met.add(name)
                return
        self._found.append(f"{case}: {line}")

    def _arranged(self, value: Any, field_name: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._arranged(each, name) for name, each in value.items()}
        if isinstance(value, list):
            items = [self._arranged(each, field_name) for each in value]
            return sorted(items, key=_identity) if field_name in self._unordered else items
        return value


def comparing(
    title: str, listed: Mapping[str, Listed] = {}, unordered: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """For a test with the fixture `compare`, which fails over what differs when the test is done.
    Lists in fields that are `unordered` are sorted: Kafka's come from hash tables there."""
    given = (title, listed, unordered)
    return pytest.mark.parametrize("compare", [given], indirect=True, ids=[title])


def versions(key: ApiKey) -> range:
    of = layout(request_type(key)).versions
    return range(of.lowest, min(of.highest, advertised(key).highest) + 1)


def differences(kafka: Any, pyk: Any, path: str = "") -> list[str]:
    if isinstance(kafka, dict) and isinstance(pyk, dict):
        pairs = [(f"{path}.{name}", kafka[name], pyk[name]) for name in kafka]
    elif isinstance(kafka, list) and isinstance(pyk, list) and _are_named(kafka, pyk):
        pairs = _by_name(kafka, pyk, path)
    elif isinstance(kafka, list) and isinstance(pyk, list) and len(kafka) == len(pyk):
        both = enumerate(zip(kafka, pyk, strict=True))
        pairs = [(f"{path}[{number}]", one, other) for number, (one, other) in both]
    else:
        return [] if kafka == pyk else [f"{path}: kafka {kafka!r}, pyk {pyk!r}"]
    return [line for where, one, other in pairs for line in differences(one, other, where)]


def _identity(value: Any) -> str:
    found = [value.get(name) for name in IDENTITIES] if isinstance(value, dict) else [value]
    return repr(found)


def _name_of(item: Any) -> str | None:
    named = item if isinstance(item, dict) else {}
    found = [str(named[name]) for name in NAMES if named.get(name) is not None]
    return " ".join(found) if found else None


def _are_named(kafka: list[Any], pyk: list[Any]) -> bool:
    """Whether items can be told apart by name, and those that both have are in the same order."""
    theirs, ours = ([_name_of(item) for item in items] for items in (kafka, pyk))
    if any(None in names or len(set(names)) < len(names) for names in (theirs, ours)):
        return False
    shared = set(theirs) & set(ours)
    return [name for name in theirs if name in shared] == [name for name in ours if name in shared]


def _by_name(kafka: list[Any], pyk: list[Any], path: str) -> list[tuple[str, Any, Any]]:
    theirs, ours = ({_name_of(item): item for item in items} for items in (kafka, pyk))
    return [
        (f"{path}[{name}]", theirs.get(name, ABSENT), ours.get(name, ABSENT))
        for name in {**theirs, **ours}
    ]
