"""Work in threads: what is left of it when it fails."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio

from pyk.offload import in_thread


class Batch:
    """Stands for one that was inflated."""


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
async def test_a_failure_in_a_thread_keeps_nothing_of_what_the_thread_worked_on() -> None:
    held: list[weakref.ref[Batch]] = []

    def inflate() -> None:
        batch = Batch()
        held.append(weakref.ref(batch))
        raise ValueError("too large")

    def judge() -> None:
        batch = Batch()
        held.append(weakref.ref(batch))
        try:
            inflate()
        except ValueError as wrong:
            raise RuntimeError("refused") from wrong

    with pytest.raises(RuntimeError, match="refused") as failure:
        await in_thread(judge)
    assert isinstance(failure.value.__cause__, ValueError)
    assert [each() for each in held] == [None, None]


async def test_a_failure_that_is_its_own_cause_ends_nothing() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    def fail() -> None:
        raise first

    with trio.fail_after(5), pytest.raises(ValueError, match="first"):
        await in_thread(fail)
