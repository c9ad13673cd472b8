"""Apache Kafka and pyk, each quick with groups, and all members that there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.brokers import serving
from compat_tests.groups.kinds import ALL_KINDS
from tests.clients.groups.brokers import BROKER_SETTINGS, options
from tests.clients.groups.conftest import processes as processes
from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import Kind
from tests.clients.groups.processes import Processes


# That Kafka does so is what the tests are judged by, and does not change with pyk.
@pytest.fixture(scope="package", params=[pytest.param("kafka", marks=pytest.mark.groups), "pyk"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    home = tmp_path_factory.mktemp("data")
    with serving(request.param, home, settings=BROKER_SETTINGS, options=options()) as address:
        yield address


@pytest.fixture(params=ALL_KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def groups(address: str, kind: Kind, processes: Processes) -> Groups:
    return Groups(address, kind, processes)
