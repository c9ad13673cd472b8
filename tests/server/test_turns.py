"""Who has much to do, or much to end, leaves turns to others. Counted, not timed."""

from __future__ import annotations

import struct
from contextlib import suppress
from time import perf_counter

from pyk.handlers.call import Peer
from pyk.server.connection import TURN_EFFORT, TURN_REQUESTS_MAX, TURN_SECONDS
from pyk.server.dispatch import Answer
from pyk.wire.frames import Frame
from tests.server.clients import Running, connect, framed, serving


async def test_requests_that_take_long_are_not_handled_in_one_turn() -> None:
    handled: list[bytes] = []

    def dispatch(frame: Frame, peer: Peer) -> Answer:
        handled.append(bytes(frame))
        if frame == b"slow":
            ends = perf_counter() + TURN_SECONDS
            while perf_counter() < ends:
                pass
        return [framed(bytes(frame))]

    async with serving(dispatch) as running:
        slow, quick = await connect(running), await connect(running)
        await slow.send(*[b"slow"] * (2 * TURN_REQUESTS_MAX))
        assert await slow.frame() == b"slow"
        assert await quick.ask(b"quick") == b"quick"
        assert handled.index(b"quick") < TURN_REQUESTS_MAX // 4
        for _ in range(2 * TURN_REQUESTS_MAX - 1):
            assert await slow.frame() == b"slow"


async def test_those_who_all_hang_up_at_once_end_one_after_the_other() -> None:
    async with serving() as running:
        good = await connect(running)
        others = [await connect(running) for _ in range(300)]
        for other in others:
            assert await other.ask(b"here") == b"here"
        for other in others:
            other.hang_up()
        for _ in range(2):
            assert await good.ask(b"still here") == b"still here"
        assert len(running.server.connections) > 100
        while len(running.server.connections) > 1:
            assert await good.ask(b"still here") == b"still here"


async def test_large_requests_share_a_turn() -> None:
    async with serving() as running:
        good = await connect(running)
        senders = [await connect(running) for _ in range(40)]
        for sender in senders:
            await sender.stream.send_all(struct.pack(">i", 10**8) + bytes(100_000))
        received = []
        for _ in range(5):
            for sender in senders:
                with suppress(BlockingIOError):
                    while sender.stream.socket._sock.send(bytes(10**6)):  # type: ignore[attr-defined]
                        pass
            before = received_bytes(running)
            assert await good.ask(b"still here") == b"still here"
            received.append(received_bytes(running) - before)
        assert min(received) > 0
        # An answer takes a few turns.
        assert max(received) < 8 * TURN_EFFORT


def received_bytes(running: Running) -> int:
    return sum(each.received_bytes for each in running.server.connections)
