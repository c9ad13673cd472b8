"""What the tests against Apache Kafka share. Without Java or Maven they fail and say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.kafka import schemas
from compat_tests.kafka.oracle import Oracle
from compat_tests.kafka.schemas import Schema

REPORT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes tells the first what it has to say."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["report"] = session.config.stash[REPORT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash[REPORT] += getattr(node, "workeroutput", {}).get("report", [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[REPORT]:
        terminalreporter.section("judged by Apache Kafka")
        for line in config.stash[REPORT]:
            terminalreporter.line(line)


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Say something that the reader of a whole run should see."""
    return pytestconfig.stash[REPORT].append


@pytest.fixture(scope="session")
def known() -> dict[str, Schema]:
    """Kafka's message schemas by name."""
    return schemas.load()


@pytest.fixture(scope="session")
def oracle(known: dict[str, Schema]) -> Iterator[Oracle]:
    """Kafka's own codec, in a Java process."""
    with Oracle() as oracle:
        yield oracle
