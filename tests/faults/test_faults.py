"""Some of the faults and the flipped bits that `make faults` tries by the thousand."""

from __future__ import annotations

import pytest

from tests.faults.campaign import planned
from tests.faults.failing_disk import Fault
from tests.faults.flips import flip
from tests.faults.known import known
from tests.faults.life import Outcome, run

LOAD = 1
FAULTS = 12


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """The same each time."""
    return [run(LOAD, wanted) for wanted in planned(LOAD, FAULTS)]


def test_a_fault_is_outlived_and_nothing_acknowledged_is_lost(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        new = [each for each in outcome.violations if known(each) is None]
        assert not new, (str(outcome.wanted), str(outcome.site))


def test_a_broker_ends_for_a_failed_sync_alone(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.wanted is not None
        if outcome.wanted.fault is not Fault.SYNC:
            assert not [text for text in outcome.ended if "SyncFailed" in text]


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_is_never_served_as_true(seed: int) -> None:
    found = flip(seed)
    new = [each for each in found.violations if known(each) is None]
    assert not new, found.what
