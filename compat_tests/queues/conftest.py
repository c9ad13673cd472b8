"""Apache Kafka and pyk, each quick with share groups, and all clients that there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.kafka.server import kafka_server, wait_until_it_leads
from compat_tests.queues.kinds import ALL_KINDS, marked
from tests.clients.brokers import running
from tests.clients.groups.processes import Processes
from tests.clients.ports import HOST, free_ports
from tests.clients.queues.brokers import BROKER_SETTINGS, options
from tests.clients.queues.kinds import Kind
from tests.clients.queues.play import Play
from tests.clients.transactions.brokers import MortalBroker

KAFKA_SETTINGS = {
    **{key: str(value) for key, value in BROKER_SETTINGS.items()},
    # It opens every one of them when it starts, and some tests start it four times.
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}
BROKERS = [
    # That Kafka does so is what the tests are judged by, and does not change with pyk. It takes its
    # time to start, and after a kill it looks through its logs.
    pytest.param("kafka", marks=[pytest.mark.queues, pytest.mark.timeout(600)]),
    "pyk",
]


@pytest.fixture(scope="package", params=BROKERS)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "kafka":
        with kafka_server(KAFKA_SETTINGS) as kafka:
            yield kafka.bootstrap_servers
    else:
        with running(tmp_path_factory.mktemp("data"), *options()) as pyk:
            yield pyk.address


@pytest.fixture(params=BROKERS)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MortalBroker]:
    port, controller_port = free_ports(2)

    @contextmanager
    def life_of_kafka() -> Iterator[int]:
        ports = (port, controller_port)
        with kafka_server(KAFKA_SETTINGS, home=tmp_path, ports=ports) as kafka:
            wait_until_it_leads(kafka)
            yield kafka.pid

    @contextmanager
    def life_of_pyk() -> Iterator[int]:
        with running(tmp_path / "data", "--port", str(port), *options()) as pyk:
            yield pyk.process.pid

    life = life_of_kafka if request.param == "kafka" else life_of_pyk
    broker = MortalBroker(f"{HOST}:{port}", life)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("members") / "log")
    yield processes
    processes.close()


@pytest.fixture(params=[marked(kind) for kind in ALL_KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def play(address: str, kind: Kind, processes: Processes) -> Iterator[Play]:
    play = Play(address, kind, processes)
    yield play
    play.end()
