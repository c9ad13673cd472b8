"""Listeners: where they listen, who they let in, and how a server ends."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from pyk.handlers.call import Peer
from pyk.server.binding import Listener
from pyk.server.dispatch import Answer
from pyk.server.listeners import open_server
from pyk.wire.frames import Frame
from tests.server.clients import LOOPBACK, Client, LogLine, Running, connect, echo, framed, serving
from tests.server.test_answers import Handlers

HAS_IPV6 = Path("/proc/net/if_inet6").exists()


async def ask_at(host: str, port: int, frame: bytes) -> Frame | None:
    async with await trio.open_tcp_stream(host, port) as stream:
        return await Client(stream).ask(frame)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "", "localhost"])
async def test_it_listens_on_ipv4(host: str) -> None:
    async with serving(listeners=[Listener("A", host, 0)]) as running:
        assert await ask_at("127.0.0.1", running.server.addresses[0].port, b"?") == b"?"


@pytest.mark.skipif(not HAS_IPV6, reason="there is no IPv6 here")
@pytest.mark.parametrize("host", ["::1", "::", ""])
async def test_it_listens_on_ipv6(host: str) -> None:
    async with serving(listeners=[Listener("A", host, 0)]) as running:
        assert await ask_at("::1", running.server.addresses[0].port, b"?") == b"?"


@pytest.mark.skipif(not HAS_IPV6, reason="there is no IPv6 here")
async def test_all_addresses_of_a_listener_have_the_same_port() -> None:
    async with serving(listeners=[Listener("A", "", 0)]) as running:
        addresses = running.server.addresses
        assert {address.host for address in addresses} == {"0.0.0.0", "::"}
        assert len({address.port for address in addresses}) == 1


async def test_several_listeners_are_told_apart() -> None:
    peers: list[Peer] = []

    def dispatch(frame: Frame, peer: Peer) -> Answer:
        peers.append(peer)
        return [framed(b"ok")]

    listeners = [Listener("INTERNAL", "127.0.0.1", 0), Listener("EXTERNAL", "127.0.0.1", 0)]
    async with serving(dispatch, listeners=listeners) as running:
        for address in running.server.addresses:
            await ask_at(address.host, address.port, b"?")
        assert [peer.listener for peer in peers] == ["INTERNAL", "EXTERNAL"]
        for peer, address in zip(peers, running.server.addresses, strict=True):
            assert (peer.host, peer.reached_host) == ("127.0.0.1", "127.0.0.1")
            assert peer.reached_port == address.port
            assert f"127.0.0.1:{peer.port}" in peer.connection_id
        assert peers[0].connection_id != peers[1].connection_id


async def test_the_address_that_the_client_reached_is_known() -> None:
    async with serving(
        lambda frame, peer: [framed(peer.reached_host.encode())],
        listeners=[Listener("A", "0.0.0.0", 0)],
    ) as running:
        assert await ask_at("127.0.0.7", running.server.addresses[0].port, b"?") == b"127.0.0.7"


async def test_a_port_in_use_is_an_error_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as failed:
            async with open_server([LOOPBACK, Listener("B", "127.0.0.1", port)], echo):
                pytest.fail("it listens")
        assert failed.value.errno == errno.EADDRINUSE


async def test_the_port_can_be_used_again_at_once() -> None:
    async with serving() as running:
        port = running.server.addresses[0].port
        assert await (await connect(running)).ask(b"?") == b"?"
    async with serving(listeners=[Listener("A", "127.0.0.1", port)]) as running:
        assert await (await connect(running)).ask(b"?") == b"?"


@contextmanager
def logged(part: str) -> Iterator[trio.Event]:
    handler, logger = LogLine(part), logging.getLogger("pyk.server")
    logger.addHandler(handler)
    yield handler.seen
    logger.removeHandler(handler)


async def test_it_survives_that_there_are_no_descriptors_left() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with serving() as running:
        early = await connect(running)
        assert await early.ask(b"early") == b"early"
        stream = await trio.open_tcp_stream("127.0.0.1", running.server.addresses[0].port)
        late = Client(stream)
        running.clients.append(late)
        assert await late.ask(b"late") == b"late"
        with logged("cannot accept connections") as refused, socket.socket() as third:
            third.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (third.fileno() + 1, hard))
            try:
                third.connect_ex(running.server.addresses[0][1:])
                await refused.wait()
                assert await early.ask(b"still there?") == b"still there?"
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            third_stream = Client(trio.SocketStream(trio.socket.from_stdlib_socket(third)))
            assert await third_stream.ask(b"?") == b"?"


async def test_a_request_that_is_being_handled_is_answered_when_the_server_is_cancelled() -> None:
    handlers = Handlers()
    frames: list[Frame | None] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with open_server([LOOPBACK], handlers) as server:
                running = Running(server)
                held, piped, idle = [await connect(running) for _ in range(3)]
                await held.send(b"hold", b"too late")
                await piped.send(b"pipe", b"behind")
                assert await idle.ask(b"?") == b"?"
                nursery.start_soon(observe, handlers, held, piped, idle, frames)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                await trio.sleep_forever()
    assert frames == [None, b"hold", None, b"pipe", b"behind", None]
    running.hang_up()


async def observe(
    handlers: Handlers, held: Client, piped: Client, idle: Client, frames: list[Frame | None]
) -> None:
    """What clients see of a server that ends: idle ones first, and then those that wait."""
    frames.append(await idle.frame())
    handlers.let_go.set()
    frames += [await held.frame(), await held.frame()]
    frames += [await piped.frame(), await piped.frame(), await piped.frame()]


async def test_who_is_not_done_after_the_grace_period_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = Handlers()
    async with serving(handlers, grace=0.05) as running:
        client = await connect(running)
        await client.send(b"hold")
        await handlers.started.wait()
    assert handlers.cancelled.is_set()
    assert "closing 1 connections that still wait" in caplog.text


async def test_nobody_can_connect_to_a_server_that_has_ended() -> None:
    async with serving() as running:
        address = running.server.addresses[0]
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream(address.host, address.port)
