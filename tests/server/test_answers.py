"""Answers: at once, later, never, in order; and what becomes of them when something fails."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from pyk.disk import SyncFailed
from pyk.errors import ProtocolError
from pyk.handlers.call import Peer
from pyk.server.dispatch import Answer, Waiting
from pyk.server.limits import Limits
from pyk.wire.frames import SMALL_BYTES_MAX, Frame
from tests.server.clients import Client, connect, framed, serving, waiting


@dataclass
class Handlers:
    """`hold` and `pipe` wait until they are let go, `quiet` has no answer, others echo."""

    handled: list[bytes] = field(default_factory=list)
    let_go: trio.Event = field(default_factory=trio.Event)
    started: trio.Event = field(default_factory=trio.Event)
    cancelled: trio.Event = field(default_factory=trio.Event)

    def __call__(self, frame: Frame, peer: Peer) -> Answer | Waiting:
        self.handled.append(bytes(frame))
        if frame.startswith((b"hold", b"pipe")):
            return waiting(self._wait(bytes(frame)), holds=frame.startswith(b"hold"))
        return None if frame == b"quiet" else [framed(bytes(frame))]

    async def _wait(self, frame: bytes) -> bytes:
        self.started.set()
        try:
            await self.let_go.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        return frame


async def test_requests_in_one_piece_are_answered_in_order() -> None:
    async with serving() as running:
        client = await connect(running)
        sent = [b"%d" % number for number in range(1000)]
        await client.send(*sent)
        assert [await client.frame() for _ in sent] == sent


async def test_a_request_without_an_answer_has_no_place_in_the_order() -> None:
    async with serving(Handlers()) as running:
        client = await connect(running)
        await client.send(b"quiet", b"one", b"quiet", b"quiet", b"two")
        assert [await client.frame(), await client.frame()] == [b"one", b"two"]


async def test_the_next_request_waits_behind_one_that_holds() -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        client = await connect(running)
        await client.send(b"before", b"hold", b"after")
        assert await client.frame() == b"before"
        await handlers.started.wait()
        assert handlers.handled == [b"before", b"hold"]
        handlers.let_go.set()
        assert [await client.frame(), await client.frame()] == [b"hold", b"after"]


async def test_the_next_requests_are_handled_while_one_is_pipelined() -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        client = await connect(running)
        await client.send(b"pipe", b"one", b"quiet", b"pipe 2", b"hold", b"last")
        await handlers.started.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert handlers.handled == [b"pipe", b"one", b"quiet", b"pipe 2", b"hold"]
        handlers.let_go.set()
        expected = [b"pipe", b"one", b"pipe 2", b"hold", b"last"]
        assert [await client.frame() for _ in expected] == expected
        assert await client.ask(b"again") == b"again"
        assert await client.ask(b"pipe") == b"pipe"


async def test_only_so_many_requests_of_a_connection_wait() -> None:
    handlers = Handlers()
    async with serving(handlers, limits=Limits(requests_in_flight_max=3)) as running:
        client = await connect(running)
        sent = [b"pipe %d" % number for number in range(50)]
        await client.send(*sent)
        await handlers.started.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert handlers.handled == sent[:3]
        handlers.let_go.set()
        assert [await client.frame() for _ in sent] == sent


async def test_answers_behind_one_that_waits_take_only_so_much_memory() -> None:
    handlers = Handlers()
    async with serving(handlers, limits=Limits(answer_bytes_max=1000)) as running:
        client = await connect(running)
        sent = [b"pipe", *(b"%0400d" % number for number in range(20))]
        await client.send(*sent)
        await handlers.started.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(handlers.handled) == 4
        handlers.let_go.set()
        assert [await client.frame() for _ in sent] == sent


async def test_a_busy_connection_leaves_turns_to_others() -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        busy, other = await connect(running), await connect(running)
        assert await other.ask(b"here") == b"here"
        await busy.send(*[b"busy"] * 10_000)
        assert await other.ask(b"turn") == b"turn"
        assert handlers.handled.count(b"busy") < 10_000
        assert [await busy.frame() for _ in range(10_000)] == [b"busy"] * 10_000


@pytest.mark.parametrize("request_", [b"hold", b"pipe"])
async def test_what_a_client_waits_for_is_cancelled_when_it_hangs_up(request_: bytes) -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        client, bystander = await connect(running), await connect(running)
        await client.send(request_)
        await handlers.started.wait()
        client.hang_up()
        await handlers.cancelled.wait()
        assert await bystander.ask(b"still there?") == b"still there?"


async def test_requests_behind_one_that_holds_are_handled_though_the_client_has_gone() -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        client = await connect(running)
        await client.send(b"hold", b"quiet", b"quiet", b"lost")
        await client.stream.send_eof()
        await handlers.cancelled.wait()
        assert await client.frame() is None, "an answer would be taken for the one that is missing"
        assert handlers.handled == [b"hold", b"quiet", b"quiet", b"lost"]


async def test_a_client_that_stops_sending_gets_the_answers_that_are_there() -> None:
    async with serving() as running:
        client = await connect(running)
        await client.send(b"one", b"two")
        await client.stream.send_eof()
        assert [await client.frame() for _ in range(3)] == [b"one", b"two", None]


async def test_a_large_request_may_be_written_to() -> None:
    def stamp(frame: Frame, peer: Peer) -> Answer:
        assert isinstance(frame, bytearray)
        frame[:7] = b"stamped"
        return [framed(bytes(frame))]

    async with serving(stamp) as running:
        client = await connect(running)
        size = 3 * 1024**2
        found = await client.ask(bytes(size))
        assert found == b"stamped" + bytes(size - 7)
        assert running.server.memory.held == 0


async def test_a_large_answer_reaches_a_client_that_reads_it_late() -> None:
    large = bytes(range(256)) * 40_000
    handlers = Handlers()
    async with serving(
        lambda frame, peer: [framed(large)] if frame == b"large" else handlers(frame, peer)
    ) as running:
        client = await connect(running)
        await client.send(b"large", b"small", b"large")
        await trio.testing.wait_all_tasks_blocked()
        assert handlers.handled == [], "who does not read is not read"
        assert await client.frame() == large
        assert await client.frame() == b"small"
        assert await client.frame() == large


def fail(error: BaseException) -> Callable[[Frame, Peer], Answer | Waiting]:
    """Handlers that fail at once, or after a wait that holds or does not."""

    async def wait_and_fail() -> bytes:
        await trio.lowlevel.checkpoint()
        raise error

    def dispatch(frame: Frame, peer: Peer) -> Answer | Waiting:
        if frame in (b"hold", b"pipe"):
            return waiting(wait_and_fail(), holds=frame == b"hold")
        if frame == b"now":
            raise error
        return [framed(bytes(frame))]

    return dispatch


@pytest.mark.parametrize("request_", [b"now", b"hold", b"pipe"])
async def test_a_bug_closes_its_connection_with_a_traceback_and_harms_nobody(
    request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(fail(ZeroDivisionError("a bug"))) as running:
        client, bystander = await connect(running), await connect(running)
        await client.send(b"before", request_)
        assert await client.frame() == b"before"
        assert await client.frame() is None
        assert "ZeroDivisionError: a bug" in caplog.text
        assert await bystander.ask(b"still there?") == b"still there?"


@pytest.mark.parametrize("request_", [b"now", b"hold", b"pipe"])
async def test_what_is_not_the_protocol_closes_its_connection_with_a_line(
    request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(fail(ProtocolError("nonsense"))) as running:
        client, bystander = await connect(running), await connect(running)
        await client.send(b"before", request_)
        assert await client.frame() == b"before"
        assert await client.frame() is None
        assert "closing a connection from 127.0.0.1: nonsense" in caplog.text
        assert "Traceback" not in caplog.text
        assert await bystander.ask(b"still there?") == b"still there?"


@pytest.mark.parametrize("request_", [b"now", b"hold", b"pipe"])
async def test_a_failed_sync_ends_the_server_and_nobody_is_answered(request_: bytes) -> None:
    handlers, failing = Handlers(), fail(SyncFailed("the disk is gone"))

    def dispatch(frame: Frame, peer: Peer) -> Answer | Waiting:
        return handlers(frame, peer) if frame == b"hold it" else failing(frame, peer)

    answered: list[Frame] = []

    async def serve_until_it_fails() -> None:
        async with serving(dispatch, grace=1000) as running:
            client, bystander = await connect(running), await connect(running)
            await bystander.send(b"hold it")
            await handlers.started.wait()
            await client.send(request_)
            try:
                await trio.sleep_forever()
            finally:
                handlers.let_go.set()
                with trio.CancelScope(shield=True):
                    answered.extend([f for c in (client, bystander) if (f := await c.frame())])

    with pytest.raises(BaseExceptionGroup) as failed:
        await serve_until_it_fails()
    assert failed.value.subgroup(SyncFailed) is not None
    assert answered == []


async def test_a_pipelined_answer_that_nobody_will_await_is_abandoned() -> None:
    handlers = Handlers()
    async with serving(handlers, limits=Limits(requests_in_flight_max=100)) as running:
        client = await connect(running)
        await client.send(*[b"pipe %0100d" % number for number in range(20)])
        await handlers.started.wait()
        client.hang_up()
        await handlers.cancelled.wait()
    assert running.server.memory.held == 0


async def test_large_requests_are_counted_while_they_wait() -> None:
    handlers = Handlers()
    size = SMALL_BYTES_MAX * 2
    async with serving(handlers) as running:
        for kind in (b"pipe", b"hold"):
            client: Client = await connect(running)
            await client.send(kind + bytes(size - 4))
        await handlers.started.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert running.server.memory.held == 2 * size
        handlers.let_go.set()
        assert await client.frame() is not None
        await trio.testing.wait_all_tasks_blocked()
        assert running.server.memory.held == 0


async def test_an_answer_behind_one_that_nobody_reads_is_abandoned() -> None:
    begun: list[str] = []

    async def held() -> bytes:
        begun.append("held")
        return b""

    def dispatch(frame: Frame, peer: Peer) -> Answer | Waiting:
        if frame == b"much":
            return [bytes(16_000)]
        return waiting(held(), holds=True)

    limits = Limits(stall_timeout=0.2, send_buffer_bytes=4096)
    async with serving(dispatch, limits=limits) as running:
        client = await connect(running)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await client.send(*[b"much"] * 60, b"hold")
        while running.server.connections:
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert begun == []
    gc.collect()  # Python warns of a coroutine that nobody closed, and pytest fails then.


async def test_a_bug_at_the_end_of_a_connection_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    def dispatch(frame: Frame, peer: Peer) -> Answer:
        peer.when_gone(fail)
        peer.when_gone(lambda: told.append(peer.connection_id))
        return [framed(bytes(frame))]

    async with serving(dispatch) as running:
        first, second = await connect(running), await connect(running)
        assert await first.ask(b"one") == b"one"
        first.hang_up()
        while len(running.server.connections) > 1:
            await trio.lowlevel.checkpoint()
        assert len(told) == 1
        assert await second.ask(b"two") == b"two"
    assert "a bug at the end of" in caplog.text


class Stubborn(Coroutine[Any, Any, Any]):
    """A response that does not end as it should."""

    def __await__(self) -> Any:
        raise AssertionError("nobody awaits it")

    def send(self, value: Any) -> Any:
        raise AssertionError("nobody awaits it")

    def throw(self, *error: Any) -> Any:
        raise AssertionError("nobody awaits it")

    def close(self) -> None:
        raise ZeroDivisionError("a bug")


async def test_a_bug_in_what_is_abandoned_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()

    def dispatch(frame: Frame, peer: Peer) -> Answer | Waiting:
        if frame == b"stubborn":
            return Waiting(Stubborn(), lambda _: None, holds=False)
        return handlers(frame, peer)

    async with serving(dispatch) as running:
        first, second = await connect(running), await connect(running)
        await first.send(b"pipe", b"stubborn", b"hold")
        await handlers.started.wait()
        first.hang_up()
        while len(running.server.connections) > 1:
            await trio.lowlevel.checkpoint()
        assert await second.ask(b"two") == b"two"
    assert "ZeroDivisionError: a bug" in caplog.text
