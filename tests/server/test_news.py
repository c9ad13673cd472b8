"""Clients that wait are answered when a request of another brings what they wait for."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.call import Call
from pyk.handlers.parked import News, Parked, Take
from pyk.handlers.table import Endpoint
from pyk.server.connection import GATHERED_BYTES_MAX
from pyk.server.dispatch import Dispatcher
from pyk.server.limits import Limits
from pyk.server.listeners import open_server
from pyk.server.outbox import Outbox
from pyk.wire.apis import ApiKey
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyk.wire.request import decode_response, encode_request
from tests.handlers.test_parked import Shelf
from tests.server.clients import ENDPOINTS, LOOPBACK, Client, Running, connect

WAIT = 10.0
"""Who waits for longer hears that it is late, and its test fails."""
LATE = SyncGroupResponse(assignment=b"late")
NEWS = SyncGroupResponse(assignment=b"news")
THANKS = SyncGroupResponse(assignment=b"thanks")
THANKS_A_LOT = SyncGroupResponse(assignment=bytes(2 * GATHERED_BYTES_MAX))
A_BUG = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, assignment=b"")


class Handlers:
    """SyncGroup waits for what is on a shelf, or puts something there. Heartbeat waits to be let
    go, but requests behind it do not."""

    def __init__(self, brings: Any = NEWS) -> None:
        """`brings` is an exception where an attempt is to fail."""
        self.news = News()
        self.shelf = Shelf()
        self.brings = brings
        self.observed: tuple[Client, ...] = ()
        self.leaver: Client | None = None
        """Somebody who hangs up in the moment before the news."""
        self.let_go = trio.Event()
        self.answered: list[list[bool]] = []
        """Who of the observed had an answer, each time that somebody who waits was given one."""

    def look(self, is_late: bool) -> Any:
        """An attempt of who waits."""
        return LATE if is_late else self.shelf.look(is_late)

    def observe(self) -> None:
        self.answered.append([is_readable(client) for client in self.observed])

    def sync(self, request: SyncGroupRequest, call: Call, broker: Any) -> Any:
        if request.member_id == "wait":
            deadline = trio.current_time() + WAIT
            return Observed(self, deadline)
        if self.leaver is not None:
            hang_up_hard(self.leaver)
        self.shelf.put(self.brings)
        match request.member_id:
            case "bring":
                return THANKS
            case "bring, for much":
                return THANKS_A_LOT
            case "bring, for an answer that waits":
                return self._thank_later()
            case "bring, for no answer":
                return None
            case _:
                raise ZeroDivisionError("a bug after the news")

    async def beat(self, request: HeartbeatRequest, call: Call, broker: Any) -> HeartbeatResponse:
        await self.let_go.wait()
        return HeartbeatResponse()

    async def _thank_later(self) -> SyncGroupResponse:
        return THANKS


class Observed(Parked):
    """Somebody who waits: when the answer is given is seen."""

    def __init__(self, handlers: Handlers, deadline: float) -> None:
        super().__init__(handlers.news, handlers.look, [handlers.shelf], deadline)
        self._handlers = handlers

    async def wait(self, take: Take) -> None:
        def take_and_observe(response: Any) -> None:
            take(response)
            self._handlers.observe()

        await super().wait(take_and_observe)


def refuse(request: SyncGroupRequest, refusal: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=refusal.code, assignment=b"")


def refuse_beat(request: HeartbeatRequest, refusal: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=refusal.code)


@asynccontextmanager
async def serving(
    handlers: Handlers,
    *,
    is_pipelined: bool = False,
    is_run: bool = True,
    limits: Limits | None = None,
) -> AsyncIterator[Running]:
    """A server whose requests bring news. Where these are not run, only who brings them tells
    them."""
    table = ENDPOINTS | {
        ApiKey.SYNC_GROUP: Endpoint(SyncGroupRequest, handlers.sync, refuse, is_pipelined),
        ApiKey.HEARTBEAT: Endpoint(HeartbeatRequest, handlers.beat, refuse_beat, True),
    }
    dispatch = Dispatcher(table, None)
    with ExitStack() as closing:
        async with trio.open_nursery() as nursery:
            if is_run:
                nursery.start_soon(handlers.news.run)
            async with open_server(
                [LOOPBACK], dispatch, limits=limits or Limits(), news=handlers.news, grace=1.0
            ) as server:
                running = Running(server)
                closing.callback(running.hang_up)
                yield running
            nursery.cancel_scope.cancel()


def sync(member: str) -> bytes:
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member, assignments=[])
    (chunk,) = encode_request(ApiKey.SYNC_GROUP, 5, 1, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


def heartbeat() -> bytes:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    (chunk,) = encode_request(ApiKey.HEARTBEAT, 4, 2, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


async def response_to(client: Client) -> SyncGroupResponse:
    frame = await client.frame()
    assert frame is not None, "the broker has hung up"
    response = decode_response(ApiKey.SYNC_GROUP, 5, frame)[1]
    assert isinstance(response, SyncGroupResponse)
    return response


async def bring(client: Client) -> SyncGroupResponse:
    await client.stream.send_all(sync("bring"))
    return await response_to(client)


async def connect_and_wait(running: Running, handlers: Handlers) -> Client:
    """A client whose request waits."""
    client = await connect(running)
    waiting = len(handlers.shelf.waiters)
    await client.stream.send_all(sync("wait"))
    await handlers.shelf.until(waiting + 1)
    return client


def is_readable(client: Client) -> bool:
    """Whether something is there for it."""
    return bool(select.select([client.stream.socket.fileno()], [], [], 0)[0])


def hang_up_hard(client: Client) -> None:
    """So that the broker cannot send to it any more."""
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.hang_up()


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_who_waits_is_answered_when_another_client_brings_the_news(
    is_pipelined: bool,
) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        assert await bring(bringer) == THANKS
        assert await response_to(waiter) == NEWS
        assert await bring(waiter) == THANKS, "the connection goes on"


@pytest.mark.parametrize(
    "brings",
    ["bring", "bring, for much", "bring, for an answer that waits", "bring, and fail"],
)
@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_who_waits_is_answered_before_who_brings_the_news(
    is_pipelined: bool, brings: str
) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined, is_run=False) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        handlers.observed = waiter, bringer
        await bringer.stream.send_all(sync(brings))
        assert await response_to(bringer) in (THANKS, THANKS_A_LOT, A_BUG)
        assert await response_to(waiter) == NEWS
    assert handlers.answered == [[True, False]]


async def test_who_waits_is_answered_before_all_who_ask_together_with_the_news() -> None:
    handlers = Handlers()
    async with serving(handlers, is_run=False) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        handlers.observed = waiter, bringer
        await bringer.stream.send_all(sync("bring") * 3)
        assert [await response_to(bringer) for _ in range(3)] == [THANKS] * 3
        assert await response_to(waiter) == NEWS
    assert handlers.answered == [[True, False]]


async def test_news_of_a_request_without_an_answer_are_told() -> None:
    handlers = Handlers()
    async with serving(handlers, is_run=False) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        await bringer.stream.send_all(sync("bring, for no answer"))
        assert await response_to(waiter) == NEWS


async def test_news_of_a_client_that_then_breaks_the_protocol_are_told() -> None:
    handlers = Handlers()
    async with serving(handlers, is_run=False) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        handlers.observed = waiter, bringer
        await bringer.stream.send_all(sync("bring") + struct.pack(">ihhi", 8, 93, 0, 1))
        assert await response_to(bringer) == THANKS
        assert await bringer.frame() is None
        assert await response_to(waiter) == NEWS
    assert handlers.answered == [[True, False]]


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_an_answer_that_is_not_taken_at_once_arrives_completely(is_pipelined: bool) -> None:
    large = SyncGroupResponse(assignment=bytes(range(256)) * 4 * 8 * 1024)
    handlers, limits = Handlers(large), Limits(send_buffer_bytes=64 * 1024)
    async with serving(handlers, is_pipelined=is_pipelined, limits=limits) as running:
        waiter = await connect_and_wait(running, handlers)
        assert await bring(await connect(running)) == THANKS
        await trio.testing.wait_all_tasks_blocked()
        assert any(each.outbox.is_blocked for each in running.server.connections)
        assert await response_to(waiter) == large
        assert await bring(waiter) == THANKS


def test_what_a_full_socket_does_not_take_is_left() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outbox = Outbox(ours)
        while outbox.send_now(bytes(64 * 1024)):
            pass
        assert outbox.offer([b"an", b"answer"]) == [b"an", b"answer"]


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_who_hung_up_before_the_news_is_not_waited_for(is_pipelined: bool) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        waiter.hang_up()
        await handlers.shelf.until(0)
        assert await bring(bringer) == THANKS
        assert await bring(bringer) == THANKS
    assert handlers.shelf.tried == [False]


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_who_hangs_up_in_the_moment_of_the_news_does_no_harm_to_others(
    is_pipelined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        handlers.leaver = await connect_and_wait(running, handlers)
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        assert await bring(bringer) == THANKS
        assert await response_to(waiter) == NEWS
        await handlers.shelf.until(0)
        handlers.leaver = None
        assert await bring(bringer) == THANKS
    assert handlers.shelf.tried == [False] * 4, "who hung up was answered too"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_a_bug_in_an_attempt_is_for_who_waits_and_not_for_who_brings_the_news(
    is_pipelined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers(ZeroDivisionError("a bug"))
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiter = await connect_and_wait(running, handlers)
        bringer = await connect(running)
        assert await bring(bringer) == THANKS
        assert await response_to(waiter) == A_BUG
        assert "SYNC_GROUP v5 failed over a bug" in caplog.text
        assert "ZeroDivisionError: a bug" in caplog.text
        assert [await bring(bringer), await bring(waiter)] == [THANKS, THANKS]


async def test_an_attempt_may_refuse() -> None:
    handlers = Handlers(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
    async with serving(handlers) as running:
        waiter = await connect_and_wait(running, handlers)
        assert await bring(await connect(running)) == THANKS
        assert (await response_to(waiter)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_an_attempt_may_end_its_connection_and_no_other(is_pipelined: bool) -> None:
    handlers = Handlers(ProtocolError("this is no request"))
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiter = await connect_and_wait(running, handlers)
        assert await bring(await connect(running)) == THANKS
        assert await waiter.frame() is None


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_news_that_no_connection_brings_are_told(is_pipelined: bool) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiter = await connect_and_wait(running, handlers)
        handlers.shelf.put(NEWS)
        assert await response_to(waiter) == NEWS


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_all_who_wait_for_the_same_are_answered_after_one_request(
    is_pipelined: bool,
) -> None:
    handlers = Handlers()
    async with serving(handlers, is_pipelined=is_pipelined) as running:
        waiters = [await connect_and_wait(running, handlers) for _ in range(40)]
        assert await bring(await connect(running)) == THANKS
        assert [await response_to(waiter) for waiter in waiters] == [NEWS] * 40
    assert handlers.shelf.tried == [False] * 80


async def test_who_waits_is_not_answered_before_its_earlier_requests() -> None:
    handlers = Handlers()
    async with serving(handlers) as running:
        waiter = await connect(running)
        await waiter.stream.send_all(heartbeat() + sync("wait"))
        await handlers.shelf.until(1)
        assert await bring(await connect(running)) == THANKS
        await handlers.shelf.until(0)
        handlers.let_go.set()
        first = await waiter.frame()
        assert first is not None
        assert first[:4] == struct.pack(">i", 2), "the answer to the heartbeat"
        assert await response_to(waiter) == NEWS
