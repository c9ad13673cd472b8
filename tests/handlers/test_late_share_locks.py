"""What a member has sent in time is heard, though the loop was held past the end of its locks."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyk.errors import ErrorCode
from pyk.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from tests.handlers.brokers import produce
from tests.handlers.queues import TOPIC, Worker, open_queue

ACCEPT = [1]
LOCKED = 30.0


@pytest.mark.parametrize("attempt", range(12), ids=str)
async def test_who_acknowledges_in_time_is_heard_before_the_locks_end(
    mock_clock: MockClock, attempt: int
) -> None:
    """Several times: trio runs what is due in one pass in any order."""
    here, there = socket.socketpair()
    answers: list[ShareAcknowledgeResponse] = []
    with here, there:
        here.setblocking(False)
        async with open_queue() as broker:
            produce(broker, TOPIC, 1)
            ann = Worker(broker, "ann", TOPIC)
            await ann.fetch()

            async def serve() -> None:
                await trio.lowlevel.wait_readable(here)
                answers.append(await ann.acknowledge((0, 0, ACCEPT)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                await trio.testing.wait_all_tasks_blocked()
                there.send(b"x")
                # As if something had held the loop: both are due in the same pass.
                mock_clock.jump(LOCKED + 1)
    assert answers[0].responses[0].partitions[0].error_code == ErrorCode.NONE
