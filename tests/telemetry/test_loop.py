"""Who has held the loop of a broker that runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from pyk.broker import World, open_broker
from pyk.config.settings import BrokerSettings
from pyk.daemon import observed
from pyk.telemetry.loop import CULPRITS_MAX, Frame, LoopWatch, blamed, culprit
from tests.telemetry.test_figures import ask, values, wanted, written
from tests.testing.test_watchdog import Clock

SECONDS = 0.4

BY_HANDLER = (
    Frame("/lib/trio/_core/_run.py", 1, "unrolled_run"),
    Frame("/lib/pyk/server/connection.py", 1, "serve"),
    Frame("/lib/pyk/handlers/list_offsets.py", 10, "handle"),
    Frame("/lib/pyk/replication/partition.py", 20, "find_timestamp"),
)


def test_the_handler_is_named_and_not_who_has_called_it_nor_what_it_calls() -> None:
    assert culprit(BY_HANDLER) == "handlers.list_offsets.handle"
    assert culprit(BY_HANDLER[:2]) == "server.connection.serve"
    assert culprit(BY_HANDLER[:1]) == "unknown"


def test_who_is_to_blame() -> None:
    stack = [BY_HANDLER]
    assert blamed(stack, late=100, computed=0, collecting=0) == "handlers.list_offsets.handle"
    assert blamed(stack, late=100, computed=90, collecting=60) == "garbage collection"
    assert blamed([], late=100, computed=90, collecting=0) == "unknown"
    assert blamed([BY_HANDLER[:1]], late=100, computed=20, collecting=0) == "the system"


@pytest.mark.loop_limit(60, "it is held on purpose")
async def test_who_holds_the_loop_is_in_the_log_and_in_the_figures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = BrokerSettings({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    async with open_broker(settings) as broker:
        await ask(broker, wanted("t"), written("t"))
    world = World(now_ms=Clock(lambda: time.sleep(SECONDS)).now_ms)
    async with open_broker(settings, world) as broker, observed(broker) as figures:
        await ask(broker, written("t"))
        with trio.fail_after(10):
            while not figures.loop.held:
                await trio.lowlevel.checkpoint()
        found = values(figures)
    (by,) = figures.loop.held
    assert by.startswith("handlers.produce.")
    assert found["pyk_event_loop_held_total"] == {(by,): 1}
    assert SECONDS / 2 < found["pyk_event_loop_held_seconds_total"][by,] < 100 * SECONDS
    (record,) = [each for each in caplog.records if each.name == "pyk.telemetry.loop"]
    assert by in record.getMessage()
    assert "produce.py" in vars(record)["stack"]


def test_there_is_an_end_to_those_who_are_named() -> None:
    watch = LoopWatch()

    async def note() -> None:
        for number in range(2 * CULPRITS_MAX):
            watch.note(str(number), 1, 1)

    trio.run(note)
    assert len(watch.held) == CULPRITS_MAX + 1
    assert watch.held["others"] == CULPRITS_MAX
