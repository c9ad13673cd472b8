"""The broker: its parts, and how their lifetimes nest."""

from __future__ import annotations

import signal
from collections.abc import Callable

import trio

from pyk.server.connection import serve_connection


async def serve(host: str, port: int, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGINT or SIGTERM. `announce` is told each address once it is open."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve_connection, listeners)
            for listener in listeners:
                bound, chosen = listener.socket.getsockname()[:2]
                announce(bound, chosen)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break
