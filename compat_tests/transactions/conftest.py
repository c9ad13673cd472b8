"""Apache Kafka and pyk, each quick with groups and transactions, and all clients that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import both, mortal_broker, serving
from compat_tests.transactions.kinds import ALL_KINDS, marked
from tests.clients.groups.brokers import BROKER_SETTINGS, options
from tests.clients.mortal import MortalBroker
from tests.clients.transactions.conftest import play as play
from tests.clients.transactions.conftest import processes as processes
from tests.clients.transactions.kinds import Kind

KAFKA_SETTINGS = {
    **BROKER_SETTINGS,
    # How often it looks for transactions that take too long. pyk needs not look.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
BROKERS = both(pytest.mark.transactions)


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
