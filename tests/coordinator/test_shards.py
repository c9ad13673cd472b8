"""The shards of an internal topic, in a broker without a server: loading, time, what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.coordinator.machine import Decision
from pyk.coordinator.shards import Parts, Shards
from pyk.handlers.context import Context
from tests.coordinator.test_shard import OPTIONS, TYPES, Tally
from tests.handlers.brokers import create, open_context

if TYPE_CHECKING:
    import pytest


class Failing(Tally):
    """Has two timers, of which the first that is due fails."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[float] = []
        self.expired = 0

    def deadline(self) -> float | None:
        return min(self.timers, default=None)

    def expire(self, now: float) -> Decision:
        self.timers.remove(min(self.timers))
        self.expired += 1
        if self.expired == 1:
            raise ZeroDivisionError
        return Decision()


def parts_of(broker: Context) -> Parts:
    return Parts(
        node_id=broker.node_id,
        settings=lambda: broker.settings,
        mirror=broker.mirror,
        directory=broker.directory,
        replicas=broker.replicas,
        rng=broker.rng,
        now_ms=broker.now_ms,
    )


@asynccontextmanager
async def running(broker: Context) -> AsyncIterator[Shards[Failing]]:
    shards = Shards(parts_of(broker), GROUP_TOPIC, TYPES, lambda: OPTIONS, Failing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shards.run)
        yield shards
        nursery.cancel_scope.cancel()


async def test_a_timer_that_fails_is_dropped_and_the_others_go_on(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_context() as broker:
        await create(broker, GROUP_TOPIC)
        async with running(broker) as shards:
            machine = shards.at(0).machine
            now = trio.current_time()
            machine.timers = [now + 1, now + 1, now + 2]
            shards.at(0).perform(lambda tally, now: Decision())
            await trio.sleep(3)
            assert machine.expired == 3
    assert "ZeroDivisionError" in caplog.text
    assert GROUP_TOPIC in caplog.text
