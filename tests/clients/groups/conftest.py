"""The members that come with `make test`, and a broker that is quick with groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.brokers import RunningBroker, running
from tests.clients.groups.brokers import options
from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import QUICK_KINDS, Kind
from tests.clients.groups.processes import Processes


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data"), *options()) as broker:
        yield broker


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("members") / "log")
    yield processes
    processes.close()


@pytest.fixture(params=QUICK_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def groups(broker: RunningBroker, kind: Kind, processes: Processes) -> Groups:
    return Groups(broker.address, kind, processes)
