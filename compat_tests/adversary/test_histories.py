"""The same histories with Apache Kafka and with pyk, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.adversary.conftest import Fronted
from tests.adversary.history import Result, run_history
from tests.adversary.producer import V1, V2

SEEDS = 20


async def test_no_history_of_the_second_version_has_an_anomaly(
    fronted: Fronted, report: Callable[[str], None]
) -> None:
    result = Result()
    for seed in range(SEEDS):
        assert await run_history(fronted.direct, seed, V2, result) == []
    report(f"{fronted.name} v2: {result}")


async def test_the_hole_of_the_first_version_shows_in_some_histories(
    fronted: Fronted, report: Callable[[str], None]
) -> None:
    result = Result()
    for seed in range(SEEDS):
        await run_history(fronted.direct, seed, V1, result)
    report(f"{fronted.name} v1: {result}")
    assert result.anomalies
