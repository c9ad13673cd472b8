"""A broker in a process of its own, and an adversary in front of it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.adversary.attacked import Attacked, make_ready
from tests.adversary.proxy import open_adversary
from tests.clients.brokers import running
from tests.clients.stored import create_topic, wait_until_known

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        make_ready(broker.address)
        yield broker.address


@pytest.fixture
async def attacked(broker_address: str) -> AsyncIterator[Attacked]:
    topic = f"topic-{uuid.uuid4()}"
    create_topic(broker_address, topic, PARTITIONS)
    wait_until_known(broker_address, topic, PARTITIONS)
    async with open_adversary(broker_address) as adversary:
        attacked = Attacked(adversary, topic, PARTITIONS)
        yield attacked
        await attacked.close()
