"""Clients that come with `make test`, each with a broker for every file of tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.clients.adapters.aio import Aiokafka
from tests.clients.adapters.client import Client
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.brokers import RunningBroker, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture(
    scope="module", params=[Confluent, KafkaPython, Aiokafka], ids=lambda kind: kind.name
)
def client(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Client]:
    client: Client = request.param(broker.address)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A name that nobody has used yet."""
    return f"topic-{uuid.uuid4()}"
