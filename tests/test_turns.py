"""Work in turns: at once if it is quick, and otherwise others go on between."""

from __future__ import annotations

from collections.abc import Coroutine
from time import perf_counter

import pytest

from pyk.turns import TURN_SECONDS, Work, answered, at_once, in_turns
from tests.handlers.turns import counting_turns

TURNS = 5


def quick(steps: int) -> Work[int]:
    for _ in range(steps):
        yield
    return steps


def slow() -> Work[str]:
    """Each step takes a turn."""
    for _ in range(TURNS):
        ends = perf_counter() + TURN_SECONDS
        while perf_counter() < ends:
            pass
        yield
    return "done"


def failing() -> Work[str]:
    yield from slow()
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("steps", [0, 1, 10])
async def test_what_is_quick_is_there_at_once(steps: int) -> None:
    assert at_once(quick(steps)) == steps
    assert answered(quick(steps)) == steps
    assert await in_turns(quick(steps)) == steps


async def test_what_is_slow_is_done_in_turns() -> None:
    async with counting_turns() as turns:
        assert await in_turns(slow()) == "done"
        assert turns.count >= TURNS - 1


async def test_the_first_turn_of_an_answer_is_taken_at_once() -> None:
    rest = answered(slow())
    assert isinstance(rest, Coroutine)
    async with counting_turns() as turns:
        assert await rest == "done"
        assert turns.count >= TURNS - 1


async def test_what_fails_is_raised_where_it_is_awaited() -> None:
    rest = answered(failing())
    assert isinstance(rest, Coroutine)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await rest
    with pytest.raises(ZeroDivisionError, match="a bug"):
        at_once(failing())
