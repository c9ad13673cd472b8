"""Members that need more than Python: Kafka's own client, Go's, and Node's.

Programs are built once, into the cache that Kafka's jars are in, too.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.kafka import jars
from tests.clients.groups.kinds import ALL, PYTHON_KINDS, Kind

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

PROGRAMS = Path(__file__).with_name("programs")
BUILD_SECONDS = 900


@functools.cache
def java() -> tuple[str, ...]:
    classes = jars.compiled(PROGRAMS / "JavaMember.java")
    return tuple(jars.java_command("JavaMember", classes=classes))


def go(name: str) -> Callable[[], tuple[str, ...]]:
    @functools.cache
    def built() -> tuple[str, ...]:
        program = jars.cache() / "members" / name
        done_in(PROGRAMS / "go", "go", "build", "-o", str(program), f"./{name}")
        return (str(program),)

    return built


@functools.cache
def node() -> tuple[str, ...]:
    directory = jars.cache() / "members" / "node"
    shutil.copytree(PROGRAMS / "node", directory, dirs_exist_ok=True)
    done_in(directory, "npm", "ci", "--silent")
    return ("node", str(directory / "member.mjs"))


def done_in(directory: Path, *command: str) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


JAVA = Kind(name="Java range", program=java)
JAVA_COOPERATIVE = Kind(name="Java cooperative", program=java, assignor="cooperative-sticky")
JAVA_CONSUMER = Kind(name="Java consumer", program=java, protocol="consumer", assignor=None)
JAVA_KINDS = (JAVA, JAVA_COOPERATIVE, JAVA_CONSUMER)

FRANZ = Kind(name="franz-go range", program=go("franz"))
FRANZ_COOPERATIVE = Kind(
    name="franz-go cooperative", program=go("franz"), assignor="cooperative-sticky"
)
FRANZ_CONSUMER = Kind(
    name="franz-go consumer",
    program=go("franz"),
    protocol="consumer",
    assignor=None,
    # Its 1.22.2 leaves without its instance id, which Kafka refuses, and keeps the place for it.
    abilities=ALL - {"be a static member"},
)
SARAMA = Kind(
    name="sarama range",
    program=go("sarama"),
    abilities=ALL - {"follow a pattern to new topics", "send its rack"},
)
KAFKAJS = Kind(
    name="kafkajs",
    program=node,
    assignor="RoundRobinAssigner",
    abilities=frozenset(),
)
GO_AND_NODE_KINDS = (FRANZ, FRANZ_COOPERATIVE, FRANZ_CONSUMER, SARAMA, KAFKAJS)


def marked(*kinds: Kind) -> ParameterSet:
    """Java's are tried in `make compat`, Go's and Node's in `make clients`. The others have met pyk
    in `make test`, or take too long, and have their turn in `make groups`, which is for all."""
    marks: list[pytest.MarkDecorator] = []
    if set(kinds) & set(GO_AND_NODE_KINDS):
        marks = [pytest.mark.clients, pytest.mark.timeout(BUILD_SECONDS)]
    elif set(kinds) <= {*PYTHON_KINDS, JAVA_COOPERATIVE}:
        marks = [pytest.mark.groups]
    return pytest.param(*kinds, id=" and ".join(each.name for each in kinds), marks=marks)


ALL_KINDS = [marked(kind) for kind in (*JAVA_KINDS, *GO_AND_NODE_KINDS, *PYTHON_KINDS)]
