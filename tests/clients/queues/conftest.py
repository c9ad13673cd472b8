"""The client that comes with `make test`, and a broker that is quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.brokers import running
from tests.clients.groups.conftest import processes as processes
from tests.clients.groups.processes import Processes
from tests.clients.mortal import MortalBroker, mortal_pyk
from tests.clients.queues.brokers import options
from tests.clients.queues.kinds import CONFLUENT, Kind
from tests.clients.queues.play import Play


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("data"), *options()) as broker:
        yield broker.address


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    with mortal_pyk(tmp_path / "data", *options()) as broker:
        yield broker


@pytest.fixture(params=[CONFLUENT], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def play(address: str, kind: Kind, processes: Processes) -> Iterator[Play]:
    play = Play(address, kind, processes)
    yield play
    play.end()
