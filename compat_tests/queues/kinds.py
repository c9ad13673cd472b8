"""Clients that need more than Python: Kafka's own, and Go's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.groups.kinds import BUILD_SECONDS, done_in
from compat_tests.kafka import jars
from compat_tests.transactions.kinds import QUIET
from tests.clients.queues.kinds import ALL, CONFLUENT, Kind

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

PROGRAMS = Path(__file__).with_name("programs")


@functools.cache
def java() -> tuple[str, ...]:
    classes = jars.compiled(PROGRAMS / "JavaShareMember.java")
    return tuple(jars.java_command("JavaShareMember", jvm=QUIET, classes=classes))


@functools.cache
def franz() -> tuple[str, ...]:
    program = jars.cache() / "share-members" / "franz"
    done_in(PROGRAMS / "go", "go", "build", "-o", str(program), ".")
    return (str(program),)


JAVA = Kind(name="Java 4.3.1", program=java, invalid_state="InvalidRecordStateException")
FRANZ = Kind(
    name="franz-go",
    program=franz,
    invalid_state="INVALID_RECORD_STATE",
    # It tells of partitions, and not which of their records it tells of. Of a topic that has
    # another id than before, it says so for ever. Where a poll ends while a fetch is under way, it
    # begins another session, and says by itself that what it has cannot be acknowledged.
    abilities=ALL
    - {
        "be told later what became of what it said",
        "go on with a topic that is made anew",
        "keep its session when a poll ends",
    },
)
ALL_KINDS = (JAVA, FRANZ, CONFLUENT)


def marked(kind: Kind) -> ParameterSet:
    """Java's is tried in `make compat`, Go's in `make clients`. Python's has met pyk in
    `make test`, and has its turn in `make queues`, which is for all."""
    marks: list[pytest.MarkDecorator] = []
    if kind is FRANZ:
        marks = [pytest.mark.clients, pytest.mark.timeout(BUILD_SECONDS)]
    elif kind is CONFLUENT:
        marks = [pytest.mark.queues]
    return pytest.param(kind, id=kind.name, marks=marks)
