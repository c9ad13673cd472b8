"""The clients that share groups are tried with."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from tests.clients.kinds import ClientKind

Ability: TypeAlias = Literal[
    "ask for more time",
    "go on with a topic that is made anew",
    "limit its records strictly",
    "be told later what became of what it said",
    "keep its session when a poll ends",
]
ALL: frozenset[Ability] = frozenset(get_args(Ability))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ClientKind[Ability]):
    invalid_state: str = field(repr=False)
    """What it says when it is told that a record is not its own any more."""
    abilities: frozenset[Ability] = field(default=ALL, repr=False)


def confluent() -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.clients.queues.programs.confluent")


CONFLUENT = Kind(
    name="confluent-kafka",
    program=confluent,
    invalid_state="INVALID_RECORD_STATE",
    abilities=ALL - {"ask for more time", "limit its records strictly"},
)
