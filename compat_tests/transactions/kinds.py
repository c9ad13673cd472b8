"""Clients that need more than Python: Kafka's own in three versions, and Go's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.groups.kinds import BUILD_SECONDS, done_in
from compat_tests.kafka import jars
from tests.clients.transactions.kinds import ALL, PYTHON_KINDS, Kind

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

PROGRAMS = Path(__file__).with_name("programs")
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)
FENCED = frozenset({"ProducerFencedException", "InvalidProducerEpochException"})


def java(library: jars.Library) -> Callable[[], tuple[str, ...]]:
    @functools.cache
    def compiled() -> tuple[str, ...]:
        classes = jars.compiled(PROGRAMS / "JavaActor.java", library)
        return tuple(jars.java_command("JavaActor", jvm=QUIET, classes=classes, of=library))

    return compiled


@functools.cache
def franz() -> tuple[str, ...]:
    program = jars.cache() / "actors" / "franz"
    done_in(PROGRAMS / "go", "go", "build", "-o", str(program), ".")
    return (str(program),)


JAVA = Kind(name="Java 4.3.1", program=java(jars.SERVER), version=2, fenced=FENCED)
JAVA_3_9 = Kind(
    name="Java 3.9.1",
    program=java(jars.client("3.9.1")),
    version=1,
    fenced=FENCED,
    abilities=ALL - {"go on after a time-out"},
)
JAVA_3_4 = replace(JAVA_3_9, name="Java 3.4.1", program=java(jars.client("3.4.1")))
FRANZ = Kind(
    name="franz-go",
    program=franz,
    version=2,
    fenced=frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}),
    # Its sessions commit what they have polled, and nothing else.
    abilities=ALL - {"commit offsets of its choice"},
)
JAVA_KINDS = (JAVA, JAVA_3_9, JAVA_3_4)
ALL_KINDS = (*JAVA_KINDS, FRANZ, *PYTHON_KINDS)


def marked(kind: Kind) -> ParameterSet:
    """Java's are tried in `make compat`, Go's in `make clients`. Python's have met pyk in
    `make test`, and the oldest does as the old one. They have their turn in `make transactions`,
    which is for all."""
    marks: list[pytest.MarkDecorator] = []
    if kind is FRANZ:
        marks = [pytest.mark.clients, pytest.mark.timeout(BUILD_SECONDS)]
    elif kind in (JAVA_3_4, *PYTHON_KINDS):
        marks = [pytest.mark.transactions]
    return pytest.param(kind, id=kind.name, marks=marks)
