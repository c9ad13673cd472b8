"""InitProducerId in every version, and idempotent producers over several batches and epochs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.listed import SAYS_WHY, WHY_IT_IS_REFUSED
from compat_tests.differential.requests import from_producer, produce
from compat_tests.differential.sides import Side, Sides
from pyk.wire.apis import ApiKey
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.produce import ProduceRequest

INIT, PRODUCE = ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE
TOPIC = "idempotent"
INT_MAX = 2**31 - 1


@pytest.fixture(scope="module", autouse=True)
def topic(sides: Sides) -> None:
    sides.create(TOPIC, partitions=20)


@comparing("INIT_PRODUCER_ID")
def test_producers_are_initialised_alike(compare: Comparison) -> None:
    def ask(transactional_id: str | None = None, timeout_ms: int = 0, **more: Any) -> Make:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **more
        )
        return lambda version, side: request

    for timeout_ms in (0, -1, 60_000, INT_MAX):
        compare.add(INIT, f"within {timeout_ms} ms", ask(None, timeout_ms))
    compare.add(INIT, "without an id", ask(""))
    compare.add(INIT, "transactional", ask("me", 60_000))
    for producer_id, epoch in ((5, -1), (-1, 5), (5, 5), (-2, -2), (0, 0), (2**62, 32_767)):
        asked = ask(producer_id=producer_id, producer_epoch=epoch)
        compare.add(INIT, f"as {producer_id} of epoch {epoch}", asked, since=3)


def sent(sequence: int, partition: int, epoch: int = 0, count: int = 1) -> Make:
    def make(version: int, side: Side) -> ProduceRequest:
        batch = from_producer(side.noted["producer"], sequence, epoch, count=count)
        made: ProduceRequest = produce(batch, topic=TOPIC, first=partition)(version, side)
        return made

    return make


@pytest.fixture
def producer(sides: Sides) -> None:
    """One that each side has an id for."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    for side in sides:
        side.noted["producer"] = side.ask(INIT, 4, request).producer_id


def _step(
    compare: Comparison, version: int, case: str, sequence: int, epoch: int = 0, count: int = 1
) -> None:
    """To the version's own partition."""
    compare.ask(PRODUCE, version, case, sent(sequence, version, epoch, count))


FOLLOWED_DIFFERENTLY = {
    SAYS_WHY: WHY_IT_IS_REFUSED,
    "where the log starts, with a sequence that is none": Listed(
        "a negative sequence",
        "log_start_offset: kafka 0, pyk -1$",
        "Clients look for it where a sequence is out of order, and it is told there.",
    ),
}


@comparing("idempotent producers", FOLLOWED_DIFFERENTLY)
@pytest.mark.usefixtures("producer")
def test_producers_are_followed_alike(compare: Comparison) -> None:
    for version in versions(PRODUCE):
        step = partial(_step, compare, version)
        for sequence in range(7):
            step(f"batch {sequence} of seven", sequence)
        for sequence in reversed(range(7)):
            step(f"batch {sequence} again", sequence)
        step("what is next", 7)
        step("with a gap", 9)
        step("one that overlaps", 6, count=3)
        step("a negative sequence", -2)
        step("a new epoch that does not begin at zero", 8, epoch=1)
        step("a new epoch", 0, epoch=1)
        step("the old epoch", 8)
        step("the old epoch, a repetition", 7)
        step("the new epoch goes on", 1, epoch=1)
        step("the new epoch, a repetition", 0, epoch=1)
        step("a later epoch", 0, epoch=9)
        step("an epoch in between", 0, epoch=5)
        step("a negative epoch", 0, epoch=-2)


@comparing("sequences that begin again", {SAYS_WHY: WHY_IT_IS_REFUSED})
@pytest.mark.usefixtures("producer")
def test_sequences_begin_again_alike(compare: Comparison) -> None:
    last = 15
    for case, sequence, count in (
        ("near the end", INT_MAX - 1, 2),
        ("from the start", 0, 1),
        ("on", 1, 1),
        ("the end again", INT_MAX - 1, 2),
    ):
        compare.ask(PRODUCE, 12, case, sent(sequence, last, count=count))
    for case, sequence, count in (
        ("near the end", INT_MAX - 1, 1),
        ("over the end", INT_MAX, 3),
        ("on", 2, 1),
        ("over the end again", INT_MAX, 3),
        ("on from the wrong place", 4, 1),
    ):
        compare.ask(PRODUCE, 12, f"second, {case}", sent(sequence, last + 1, count=count))
