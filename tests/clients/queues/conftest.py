"""The client that comes with `make test`, and a broker that is quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.brokers import running
from tests.clients.groups.processes import Processes
from tests.clients.ports import free_ports
from tests.clients.queues.brokers import options
from tests.clients.queues.kinds import CONFLUENT, Kind
from tests.clients.queues.play import Play
from tests.clients.transactions.brokers import MortalBroker


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("data"), *options()) as broker:
        yield broker.address


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    [port] = free_ports(1)

    @contextmanager
    def life() -> Iterator[int]:
        with running(tmp_path / "data", "--port", str(port), *options()) as broker:
            yield broker.process.pid

    broker = MortalBroker(f"127.0.0.1:{port}", life)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("members") / "log")
    yield processes
    processes.close()


@pytest.fixture(params=[CONFLUENT], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def play(address: str, kind: Kind, processes: Processes) -> Iterator[Play]:
    play = Play(address, kind, processes)
    yield play
    play.end()
