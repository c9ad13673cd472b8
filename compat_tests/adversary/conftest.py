"""Apache Kafka and pyk, each behind an adversary, which they believe is where they are."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from compat_tests.kafka.server import kafka_server
from tests.adversary.attacked import Attacked, make_ready
from tests.adversary.proxy import open_adversary
from tests.clients.brokers import running
from tests.clients.ports import HOST, free_ports
from tests.clients.stored import create_topic, wait_until_known

PARTITIONS = 3


class Fronted(NamedTuple):
    """A broker that tells clients to come to the port of an adversary."""

    name: str
    direct: str
    """Where setting up is not in anybody's way."""
    attacked: str
    port: int


# That Kafka does so is what the attacks are judged by, and does not change with pyk.
@pytest.fixture(
    scope="package", params=[pytest.param("kafka", marks=pytest.mark.transactions), "pyk"]
)
def fronted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fronted]:
    broker, controller, clients, port = free_ports(4)
    if request.param == "kafka":
        # Kafka talks to itself on a listener of its own.
        properties = {
            "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}"
            f",CLIENT://{HOST}:{clients}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{broker},CLIENT://{HOST}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ",CLIENT:PLAINTEXT",
        }
        with kafka_server(properties, ports=(broker, controller)) as kafka:
            make_ready(kafka.bootstrap_servers)
            yield Fronted("kafka", kafka.bootstrap_servers, f"{HOST}:{clients}", port)
        return
    options = ("-o", f"advertised.listeners=PLAINTEXT://{HOST}:{port}")
    with running(tmp_path_factory.mktemp("data"), *options) as pyk:
        make_ready(pyk.address)
        yield Fronted("pyk", pyk.address, pyk.address, port)


@pytest.fixture
async def attacked(fronted: Fronted) -> AsyncIterator[Attacked]:
    topic = f"topic-{uuid.uuid4()}"
    create_topic(fronted.direct, topic, PARTITIONS)
    wait_until_known(fronted.direct, topic, PARTITIONS)
    async with open_adversary(fronted.attacked, fronted.port) as adversary:
        attacked = Attacked(adversary, topic, PARTITIONS)
        yield attacked
        await attacked.close()
