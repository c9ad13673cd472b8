"""What fails and is no refusal goes no further than it must."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from pyk.disk import SyncFailed
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.call import Peer
from pyk.handlers.context import Context
from pyk.handlers.failures import PAUSE_MAX, PAUSE_MIN, Failures, Run, Tasks
from pyk.log.segments import CorruptLog
from pyk.types import TopicPartition
from pyk.wire.compression import CorruptBatch
from tests.handlers.brokers import call, create


@pytest.mark.parametrize(
    ("failure", "code", "count"),
    [
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        (CorruptBatch("torn"), ErrorCode.CORRUPT_MESSAGE, 1),
        (ProtocolError("not a record"), ErrorCode.CORRUPT_MESSAGE, 1),
        (CorruptLog("gone"), ErrorCode.KAFKA_STORAGE_ERROR, 1),
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR, 1),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
async def test_a_partition_that_fails_has_an_error_code(
    failure: Exception, code: ErrorCode, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    failures = Failures()
    assert failures.refusal(failure, "orders-0").code == code
    assert failures.count == count
    assert ("orders-0" in caplog.text) == bool(count)


async def test_a_thousand_failures_are_a_line_a_second(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    failures = Failures()
    for _ in range(1000):
        failures.note("orders-0", ZeroDivisionError())
    assert len(caplog.records) == 1
    await trio.sleep(1)
    failures.note("orders-0", ZeroDivisionError())
    assert "999 others" in caplog.records[-1].getMessage()
    assert failures.count == 1001


async def test_a_task_that_fails_is_told_of_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    failures, heard = Failures(), list[Exception]()
    failures.tell_of_bug = heard.append
    done = trio.Event()

    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    async def succeed() -> None:
        await trio.sleep(1)
        done.set()

    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery, failures)
        tasks.start_soon(fail)
        tasks.start_soon(succeed)
    assert done.is_set()
    assert failures.count == 1
    assert len(heard) == 1
    assert "ZeroDivisionError: a bug" in caplog.text


async def test_what_has_no_end_begins_again_after_a_pause_that_grows(
    autojump_clock: MockClock,
) -> None:
    began: list[float] = []

    async def fail_often() -> None:
        began.append(trio.current_time())
        if len(began) == 12:
            await trio.sleep(2 * PAUSE_MAX)
        raise ZeroDivisionError("a bug")

    with trio.move_on_after(100):
        async with trio.open_nursery() as nursery:
            Tasks(nursery, Failures()).keep_running(fail_often)
    pauses = [b - a for a, b in pairwise(began)]
    assert pauses[:3] == pytest.approx([PAUSE_MIN, 2 * PAUSE_MIN, 4 * PAUSE_MIN])
    assert max(pauses[:11]) == pytest.approx(PAUSE_MAX)
    # After it has run well for a while it is not taken for one that cannot.
    assert pauses[11] == pytest.approx(2 * PAUSE_MAX + PAUSE_MIN)


@pytest.mark.parametrize("start", [Tasks.start_soon, Tasks.keep_running])
async def test_a_failed_sync_ends_everything(start: Callable[[Tasks, Run], None]) -> None:
    async def fail() -> None:
        raise SyncFailed("the disk is gone")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            start(Tasks(nursery, Failures()), fail)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as failed:
        await run()
    assert failed.value.subgroup(SyncFailed) is not None


async def test_a_broker_survives_a_task_of_its_own(broker: Context) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    broker.tasks.start_soon(fail)
    await create(broker, "orders")
    assert broker.leader_of("orders", 0).offsets.end == 0
    assert broker.failures.count == 1


def test_all_who_wait_for_the_end_of_a_connection_are_told_of_it() -> None:
    told: list[str] = []

    def fail() -> None:
        told.append("first")
        raise ZeroDivisionError("a bug")

    peer: Peer = call(0).peer
    peer.when_gone(fail)
    peer.when_gone(lambda: told.append("second"))
    with pytest.raises(ExceptionGroup):
        peer.leave()
    assert told == ["first", "second"]
    peer.leave()
    assert told == ["first", "second"]


async def test_partitions_are_told_as_their_directories_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Failures().refusal(CorruptBatch("torn"), str(TopicPartition("orders", 3)))
    assert "orders-3 has failed" in caplog.text
