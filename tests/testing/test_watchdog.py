"""The watchdog of tests: who held a broker's loop, and what is not held against anybody."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from pyk.broker import World, open_broker
from pyk.config.settings import BrokerSettings
from pyk.offload import at_once
from pyk.testing.watchdog import Hold, Watchdog
from tests.telemetry.test_figures import ask, wanted, written

pytestmark = pytest.mark.loop_limit(60, "here loops are held on purpose")

HELD = 0.1


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    found = Watchdog()
    found.start()
    yield found
    found.stop()


def compute(seconds: float = HELD) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


class Clock:
    """Of a broker. Whoever asks what time it is has to wait, once."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait: Callable[[], None] | None = wait

    def now_ms(self) -> int:
        wait, self._wait = self._wait, None
        if wait is not None:
            wait()
        return time.time_ns() // 1_000_000


def holds_of(watchdog: Watchdog, path: Path, wait: Callable[[], None]) -> list[Hold]:
    """While a record is written, and the handler of Produce asks a clock."""

    async def produce() -> None:
        settings = BrokerSettings({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        async with open_broker(settings, World(now_ms=lambda: 0)) as broker:
            await ask(broker, wanted("t"), written("t"))
        watchdog.take()
        clock = Clock(wait)
        async with open_broker(settings, World(now_ms=clock.now_ms)) as broker:
            await ask(broker, written("t"))

    trio.run(produce, instruments=[watchdog.instrument()])
    return [hold for hold in watchdog.take() if hold.seconds >= HELD / 2]


def test_a_handler_that_computes_is_found_with_its_stack(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    (hold,) = holds_of(watchdog, tmp_path, compute)
    assert HELD / 2 < hold.seconds < 10 * HELD
    assert any(frame.module == "handlers.produce" for frame in hold.stack)
    assert hold.stack[-1].function == "compute"
    assert "in compute" in str(hold)


def test_a_machine_that_has_other_work_is_not_held_against_it(
    watchdog: Watchdog, tmp_path: Path
) -> None:
    assert holds_of(watchdog, tmp_path, lambda: time.sleep(2 * HELD)) == []


def test_garbage_collection_is_not_held_against_it(watchdog: Watchdog, tmp_path: Path) -> None:
    def collect() -> None:
        ends = time.thread_time() + HELD
        while time.thread_time() < ends:
            gc.collect()

    assert holds_of(watchdog, tmp_path, collect) == []


@pytest.mark.parametrize("where", ["in the test", "elsewhere"])
def test_what_is_no_brokers_or_in_another_thread_is_not_held_against_it(
    where: str, watchdog: Watchdog
) -> None:
    async def test() -> None:
        if where == "elsewhere":
            await at_once(compute)
        else:
            compute()

    trio.run(test, instruments=[watchdog.instrument()])
    assert watchdog.take() == []
