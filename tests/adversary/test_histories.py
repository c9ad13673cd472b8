"""The first of the histories of `make adversary`, which has hundreds."""

from __future__ import annotations

import pytest

from tests.adversary.history import Result, run_history
from tests.adversary.producer import V2


@pytest.mark.parametrize("seed", range(8))
async def test_no_history_of_the_second_version_has_an_anomaly(
    broker_address: str, seed: int
) -> None:
    result = Result()
    assert await run_history(broker_address, seed, V2, result) == []
    assert result.late.total() > 0, "nothing was attacked"
