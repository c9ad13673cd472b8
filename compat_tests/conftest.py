"""What the tests against Apache Kafka share. Without Java or Maven they fail and say what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.kafka import schemas
from compat_tests.kafka.oracle import Oracle
from compat_tests.kafka.schemas import Schema


@pytest.fixture(scope="session")
def known() -> dict[str, Schema]:
    """Kafka's message schemas by name."""
    return schemas.load()


@pytest.fixture(scope="session")
def oracle(known: dict[str, Schema]) -> Iterator[Oracle]:
    """Kafka's own codec, in a Java process."""
    with Oracle() as oracle:
        yield oracle
