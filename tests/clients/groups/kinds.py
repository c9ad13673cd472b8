"""The kinds of members that groups are tried with: a client, a protocol, an assignor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from tests.clients.kinds import ClientKind

Ability: TypeAlias = Literal[
    "be a static member",
    "follow a pattern to new topics",
    "send its rack",
    "commit later than it reads",
]
ALL: frozenset[Ability] = frozenset(get_args(Ability))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ClientKind[Ability]):
    protocol: Literal["classic", "consumer"] = "classic"
    assignor: str | None = "range"
    """None leaves it to the broker."""
    abilities: frozenset[Ability] = field(default=ALL, repr=False)


def python(module: str) -> Callable[[], tuple[str, ...]]:
    return lambda: (sys.executable, "-m", f"tests.clients.groups.programs.{module}")


CONFLUENT = Kind(name="confluent-kafka range", program=python("confluent"))
CONFLUENT_COOPERATIVE = Kind(
    name="confluent-kafka cooperative",
    program=python("confluent"),
    assignor="cooperative-sticky",
)
CONFLUENT_CONSUMER = Kind(
    name="confluent-kafka consumer",
    program=python("confluent"),
    protocol="consumer",
    assignor=None,
)
KAFKA_PYTHON = Kind(
    name="kafka-python range",
    program=python("kafka_python"),
    # When a new topic matches, its members end without any partition, with Apache Kafka, too.
    abilities=ALL - {"send its rack", "follow a pattern to new topics"},
)
AIOKAFKA = Kind(name="aiokafka range", program=python("aio"), abilities=ALL - {"send its rack"})

PYTHON_KINDS = (
    CONFLUENT,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_CONSUMER,
    KAFKA_PYTHON,
    AIOKAFKA,
)
QUICK_KINDS = (CONFLUENT, CONFLUENT_CONSUMER, AIOKAFKA)
"""Those that `make test` tries with everything. `make groups` is for all."""
