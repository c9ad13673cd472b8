"""What systemd is told of a service of `Type=notify`."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Say that we are READY=1 or STOPPING=1, if there is a systemd that wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A name that begins with @ is an abstract one, which the kernel writes with a zero byte.
    address = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return  # Who is not there to hear it does not stop us.
