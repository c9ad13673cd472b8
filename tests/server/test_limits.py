"""What clients may not do, and that others do not notice."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
import trio
import trio.testing

from pyk.handlers.call import Peer
from pyk.handlers.parked import News
from pyk.server.connection import Connection, Shared
from pyk.server.dispatch import Answer, Waiting
from pyk.server.hangups import HangUps
from pyk.server.limits import Closings, Limits, Memory
from pyk.server.watch import watch
from pyk.wire.frames import SMALL_BYTES_MAX, Frame
from tests.server.clients import Client, connect, framed, serving, waiting

HASTY = Limits(idle_timeout=0.2, stall_timeout=0.2)
LARGE = 100_000


async def test_a_connection_that_is_idle_for_long_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(limits=HASTY) as running:
        client = await connect(running)
        assert await client.ask(b"hello") == b"hello"
        assert await client.frame() is None
    assert "it was idle for too long" in caplog.text


@pytest.mark.parametrize("half", [b"\0", b"\0\0\0\x10", b"\0\0\0\x10half"])
async def test_half_a_request_does_not_keep_a_connection(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(limits=Limits(stall_timeout=0.2)) as running:
        client = await connect(running)
        await client.stream.send_all(half)
        assert await client.frame() is None
    assert "its request is not complete" in caplog.text


async def drip(client: Client, data: bytes) -> None:
    for byte in data:
        await client.stream.send_all(bytes([byte]))
        with trio.move_on_after(0.02):
            await client.stream.receive_some()


async def drip_until_closed(client: Client, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await drip(client, data)


async def test_a_request_that_drips_does_not_keep_a_connection() -> None:
    async with serving(limits=Limits(stall_timeout=0.2)) as running:
        client = await connect(running)
        with pytest.raises(trio.BrokenResourceError):
            await drip(client, framed(bytes(10**6)))


async def test_a_slow_request_that_does_advance_is_handled() -> None:
    limits = Limits(stall_timeout=0.3, stall_bytes_per_second=10)
    async with serving(limits=limits) as running:
        client = await connect(running)
        sent = bytes(500)
        began = trio.current_time()
        for start in range(0, len(framed(sent)), 20):
            await client.stream.send_all(framed(sent)[start : start + 20])
            await trio.sleep_until(began + start / 500)
        assert await client.frame() == sent


async def test_a_client_that_does_not_read_is_not_read_and_then_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled = 0

    def dispatch(frame: Frame, peer: Peer) -> Answer:
        nonlocal handled
        handled += 1
        return [framed(bytes(1024**2))]

    async with serving(dispatch, limits=Limits(stall_timeout=0.3)) as running:
        client = await connect(running)
        with pytest.raises(trio.BrokenResourceError):
            await client.send(*[b"more"] * 10**7)
        assert handled < 100
    assert "it does not read its answers" in caplog.text


async def test_a_request_that_takes_long_to_handle_is_not_idle() -> None:
    async def long() -> bytes:
        await trio.sleep(1)
        return b"at last"

    def dispatch(frame: Frame, peer: Peer) -> Answer | Waiting:
        return waiting(long(), holds=frame == b"hold")

    async with serving(dispatch, limits=HASTY) as running:
        held, pipelined = await connect(running), await connect(running)
        await held.send(b"hold")
        await pipelined.send(b"pipe")
        assert await held.frame() == b"at last"
        assert await pipelined.frame() == b"at last"


async def test_there_are_only_so_many_connections(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(limits=Limits(connections_max=2)) as running:
        first, second, third = [await connect(running) for _ in range(3)]
        assert await third.frame() is None
        assert "there are 2, which is the limit" in caplog.text
        assert await second.ask(b"?") == b"?"
        first.hang_up()
        await trio.testing.wait_all_tasks_blocked()
        assert await (await connect(running)).ask(b"?") == b"?"


async def test_there_are_only_so_many_connections_of_one_address() -> None:
    limits = Limits(connections_max_per_ip=1, connections_max_by_ip={"127.0.0.1": 2})
    async with serving(limits=limits) as running:
        _, second, third = [await connect(running) for _ in range(3)]
        assert await third.frame() is None
        assert await second.ask(b"?") == b"?"
    async with serving(limits=Limits(connections_max_per_ip=1)) as running:
        first, second = [await connect(running) for _ in range(2)]
        assert await second.frame() is None
        assert await first.ask(b"?") == b"?"


async def test_a_request_beyond_the_limit_is_refused_before_it_arrives() -> None:
    async with serving(limits=Limits(frame_bytes_max=1000)) as running:
        client = await connect(running)
        assert await client.ask(bytes(1000)) == bytes(1000)
        await client.stream.send_all((1001).to_bytes(4, "big"))
        assert await client.frame() is None


async def test_incomplete_requests_of_all_connections_take_only_so_much_memory() -> None:
    async with serving(limits=Limits(buffered_bytes_max=3 * LARGE)) as running:
        memory = running.server.memory
        clients = [await connect(running) for _ in range(10)]
        for client in clients:
            await client.stream.send_all(framed(bytes(2 * LARGE))[:LARGE])
            await trio.testing.wait_all_tasks_blocked()
        assert memory.held <= 4 * LARGE + 10 * SMALL_BYTES_MAX
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.stream.send_all, bytes(LARGE + 4))
            for client in clients:
                assert await client.frame() == bytes(2 * LARGE)
                assert memory.held <= 5 * LARGE + 10 * SMALL_BYTES_MAX
        await trio.testing.wait_all_tasks_blocked()
        assert memory.held == 0


async def test_small_requests_do_not_wait_for_memory() -> None:
    async with serving(limits=Limits(buffered_bytes_max=1)) as running:
        greedy, other, small = [await connect(running) for _ in range(3)]
        await greedy.stream.send_all(framed(bytes(2 * LARGE))[:LARGE])
        await other.stream.send_all(framed(bytes(2 * LARGE))[:LARGE])
        assert await small.ask(b"?") == b"?"
        greedy.hang_up()
        await other.stream.send_all(bytes(LARGE + 4))
        assert await other.frame() == bytes(2 * LARGE)


async def test_a_slow_request_does_not_keep_others_from_memory_for_long() -> None:
    limits = Limits(buffered_bytes_max=1, stall_timeout=0.3, stall_bytes_per_second=10)
    async with serving(limits=limits) as running:
        slow, other = await connect(running), await connect(running)
        for client in (slow, other):
            await client.stream.send_all(framed(bytes(2 * LARGE))[:LARGE])
            await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip_until_closed, slow, bytes(LARGE - 1))
            await other.stream.send_all(bytes(LARGE + 4))
            assert await other.frame() == bytes(2 * LARGE)
            nursery.cancel_scope.cancel()
        assert await slow.frame() is None


async def test_closings_are_told_once_a_second(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.WARNING)
    closings = Closings()
    for _ in range(100):
        closings.note("10.0.0.1", "nonsense")
    await trio.sleep(1)
    closings.note("10.0.0.2", "nonsense")
    assert caplog.messages == [
        "closing a connection from 10.0.0.1: nonsense",
        "closing a connection from 10.0.0.2: nonsense (and 99 others since the last such line)",
    ]


class Ending(set[Connection]):
    """They end once they were counted, before anybody looks at them."""

    def __iter__(self) -> Iterator[Connection]:
        there = list(super().__iter__())
        yield from there
        self.clear()
        for connection in there:
            connection.outbox.is_blocked = True
            connection._socket.close()


async def test_who_has_ended_while_others_are_looked_at_is_left_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    near, far = socket.socketpair()
    memory, closings = Memory(LARGE), Closings()
    with far, HangUps() as hang_ups:
        shared = Shared(lambda frame, peer: None, HASTY, memory, hang_ups, News())
        connection = Connection(near, somebody(), shared)
        with trio.move_on_after(10 * HASTY.idle_timeout):
            await watch(Ending([connection]), HASTY, memory, closings)
    assert not connection.scope.cancel_called


def somebody() -> Peer:
    return Peer(connection_id="", listener="", host="", port=0, reached_host="", reached_port=0)
