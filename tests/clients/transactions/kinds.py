"""The clients that transactions are tried with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from tests.clients.kinds import ClientKind

Ability: TypeAlias = Literal[
    "be fenced by the generation of its group",
    "commit offsets of its choice",
    "go on after a time-out",
]
ALL: frozenset[Ability] = frozenset(get_args(Ability))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ClientKind[Ability]):
    version: Literal[1, 2]
    """Of transactions: the newest that it knows."""
    fenced: frozenset[str] = field(repr=False)
    """What it says when it is told that another has its place."""
    abilities: frozenset[Ability] = field(default=ALL, repr=False)


def python(module: str) -> Callable[[], tuple[str, ...]]:
    return lambda: (sys.executable, "-m", f"tests.clients.transactions.programs.{module}")


CONFLUENT = Kind(
    name="confluent-kafka",
    program=python("confluent"),
    version=1,
    fenced=frozenset({"_FENCED"}),
    abilities=ALL - {"go on after a time-out"},
)
AIOKAFKA = Kind(
    name="aiokafka",
    program=python("aio"),
    version=1,
    fenced=frozenset({"ProducerFenced"}),
    # It commits offsets for whoever has the transactional id, as all did before KIP-447.
    abilities=ALL - {"be fenced by the generation of its group", "go on after a time-out"},
)
PYTHON_KINDS = (CONFLUENT, AIOKAFKA)
