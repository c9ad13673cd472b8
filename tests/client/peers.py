"""Servers that are not brokers, or bad ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyk.client.address import Address

Behaviour = Callable[[socket.socket], None]


@contextmanager
def peer(behave: Behaviour) -> Iterator[Address]:
    """Somebody who listens, and treats each connection in the same way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                held.append(connection)
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

        def treat(connection: socket.socket) -> None:
            with suppress(OSError):
                behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def hangs_up(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def alerts(connection: socket.socket) -> None:
    """As a server of TLS does that hears something else."""
    connection.recv(4096)
    connection.sendall(bytes.fromhex("15030300020246"))
    connection.close()
