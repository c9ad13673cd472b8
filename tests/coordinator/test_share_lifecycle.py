"""States of many share partitions begin in turns, whatever comes of each."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from time import perf_counter

import trio

from pyk.coordinator.share_lifecycle import Errors, for_each
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.turns import TURN_SECONDS
from pyk.types import Uuid
from tests.handlers.turns import counting_turns

KEYS = [SharePartitionKey("workers", Uuid(bytes(16)), number) for number in range(9)]
SECONDS = TURN_SECONDS
"""What a call for one partition takes."""


def compute() -> None:
    ends = perf_counter() + SECONDS
    while perf_counter() < ends:
        pass


async def errors_of(outcome: Errors | Awaitable[Errors]) -> Errors:
    return await outcome if isawaitable(outcome) else outcome


async def test_partitions_that_take_no_time_begin_at_once() -> None:
    called: list[SharePartitionKey] = []
    assert for_each(KEYS, called.append) == {}
    assert called == KEYS


async def test_others_have_their_turn_between_partitions() -> None:
    async with counting_turns() as turns:
        assert await errors_of(for_each(KEYS, lambda _: compute())) == {}
        assert turns.count >= len(KEYS) - 2


async def test_each_partition_has_its_own_outcome() -> None:
    refusal = KafkaError(ErrorCode.NOT_COORDINATOR)

    async def refuse() -> None:
        await trio.lowlevel.checkpoint()
        raise refusal

    def call(key: SharePartitionKey) -> Awaitable[None] | None:
        compute()
        if key.partition == 1:
            raise refusal
        return refuse() if key.partition == 7 else None

    assert await errors_of(for_each(KEYS, call)) == {KEYS[1]: refusal, KEYS[7]: refusal}
