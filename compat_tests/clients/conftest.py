"""The clients that do not come with `make test`: Kafka's own, and kcat."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from compat_tests.clients.java import JavaClient
from compat_tests.clients.kcat import Kcat
from tests.clients.adapters.client import Client
from tests.clients.brokers import RunningBroker, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture(scope="module", params=[JavaClient, Kcat], ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Client]:
    client: Client = request.param(broker.address)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A name that nobody has used yet."""
    return f"topic-{uuid.uuid4()}"
