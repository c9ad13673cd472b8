"""A request's time: what takes longer is told so."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.deadline import within


async def test_what_takes_too_long_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(KafkaError) as refused, within(5000):
        await trio.sleep_forever()
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert trio.current_time() == 5


async def test_what_is_in_time_is_not(autojump_clock: trio.testing.MockClock) -> None:
    with within(5000):
        await trio.sleep(4)


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_nothing_is_begun(timeout_ms: int) -> None:
    with pytest.raises(KafkaError), within(timeout_ms):
        pytest.fail("it was begun")
