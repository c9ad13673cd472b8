"""Apache Kafka and pyk, each quick with share groups, and all clients that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import both, mortal_broker, serving
from compat_tests.queues.kinds import ALL_KINDS, marked
from tests.clients.mortal import MortalBroker
from tests.clients.queues.brokers import BROKER_SETTINGS, options
from tests.clients.queues.conftest import play as play
from tests.clients.queues.conftest import processes as processes
from tests.clients.queues.kinds import Kind

KAFKA_SETTINGS = {
    **BROKER_SETTINGS,
    # It opens every one of them when it starts, and some tests start it four times.
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}
BROKERS = both(pytest.mark.queues)


@pytest.fixture(scope="package", params=BROKERS)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    home = tmp_path_factory.mktemp("data")
    with serving(request.param, home, settings=KAFKA_SETTINGS, options=options()) as address:
        yield address


@pytest.fixture(params=BROKERS)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MortalBroker]:
    name: str = request.param
    with mortal_broker(name, tmp_path, settings=KAFKA_SETTINGS, options=options()) as broker:
        yield broker


@pytest.fixture(params=[marked(kind) for kind in ALL_KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind
