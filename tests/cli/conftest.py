from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.brokers import running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker.address
