"""Sockets that listen, and what is set on those that they accept."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from pyk.server.limits import Limits

PORT_ATTEMPTS: Final = 20
NO_SUCH_FAMILY: Final = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}


class Listener(NamedTuple):
    """Where to listen. No host is every address there is, a name may stand for several, and the
    port 0 is one that the system chooses, the same for all of them."""

    name: str
    host: str
    port: int


class CannotListen(OSError):
    """A listener cannot be had. Its text is for an operator."""

    def __str__(self) -> str:
        return str(self.strerror)


async def bind(listener: Listener, limits: Limits) -> list[socket.socket]:
    """A socket for each address of the listener, where nobody is heard yet. Raise CannotListen."""
    try:
        return await _bind_anywhere(listener, limits)
    except OSError as failed:
        raise _cannot_listen(listener, failed) from failed


def listen(listener: Listener, bound: socket.socket, limits: Limits) -> None:
    """From now on clients may connect. Raise CannotListen."""
    try:
        bound.listen(limits.backlog)
    except OSError as failed:
        raise _cannot_listen(listener, failed) from failed


def _cannot_listen(listener: Listener, failed: OSError) -> CannotListen:
    where = f"{listener.host}:{listener.port}"
    said = f"cannot listen on {where} for {listener.name}: {failed.strerror}"
    return CannotListen(failed.errno, said)


async def _bind_anywhere(listener: Listener, limits: Limits) -> list[socket.socket]:
    host = listener.host
    found = await trio.socket.getaddrinfo(
        # As bytes where it can be: for text Python imports its tables of Unicode first.
        (host.encode() if host.isascii() else host) or None,
        listener.port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
    )
    hosts = list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))
    for _ in range(PORT_ATTEMPTS):
        try:
            return _bind_all(hosts, listener.port, limits)
        except OSError as error:
            # The port that was free on the first address may not be on the second.
            if listener.port or error.errno != errno.EADDRINUSE:
                raise
            failure = error
    raise failure


def _bind_all(
    hosts: Sequence[tuple[socket.AddressFamily, str]], port: int, limits: Limits
) -> list[socket.socket]:
    opened: list[socket.socket] = []
    missing: OSError | None = None
    for family, host in hosts:
        try:
            bound = _bind(family, host, port, limits)
        except OSError as error:
            # A name may have addresses of a family that this machine does not speak.
            if error.errno in NO_SUCH_FAMILY and len(hosts) > 1:
                missing = error
                continue
            for other in opened:
                other.close()
            raise
        opened.append(bound)
        port = bound.getsockname()[1]
    if not opened:
        assert missing is not None
        raise missing
    return opened


def _bind(family: socket.AddressFamily, host: str, port: int, limits: Limits) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if limits.receive_buffer_bytes >= 0:
            # Connections inherit it, and later would be too late for a large window.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def prepare(accepted: socket.socket, limits: Limits) -> None:
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if limits.send_buffer_bytes >= 0:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
