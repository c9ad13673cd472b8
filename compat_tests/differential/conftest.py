"""One Kafka and one pyk for all of the suite, which starts and settles them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.conftest import REPORT
from compat_tests.differential.comparison import Comparison, Tally
from compat_tests.differential.sides import Sides

OPTIONS = {
    "num.partitions": "2",
    "max.request.partition.size.limit": "5",
    "group.consumer.heartbeat.interval.ms": "6000",
    "group.share.max.size": "7",
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
}
"""Records have the same time in every run, which is long ago: they must not be retired over it."""
ONLY_KAFKA = {
    "controller.quorum.append.linger.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""So that a change takes no longer than it must, and that share groups have where to be. pyk makes
the topic as it can."""


@pytest.fixture(scope="package")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with Sides.open(tmp_path_factory.mktemp("data"), OPTIONS, ONLY_KAFKA) as sides:
        yield sides


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Iterator[Tally]:
    tally = Tally()
    yield tally
    pytestconfig.stash[REPORT].append(
        f"differential: {tally.compared} answers compared, {len(tally.listed)} differences listed: "
        + "; ".join(tally.listed)
    )


@pytest.fixture
def compare(
    sides: Sides,
    tally: Tally,
    report: Callable[[str], None],
    request: pytest.FixtureRequest,
) -> Iterator[Comparison]:
    title, listed, unordered = request.param
    comparison = Comparison(sides, listed, unordered)
    yield comparison
    if comparison.differences:
        pytest.fail("\n".join(comparison.differences), pytrace=False)
    tally.compared += comparison.compared
    tally.listed.update(listed)
    but = f", but for {len(listed)} listed" if listed else ""
    report(f"{title}: {comparison.compared} answers are the same{but}")
