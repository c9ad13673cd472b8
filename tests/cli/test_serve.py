"""`pyk serve`, as a user runs it: another process, and a client that nobody here wrote."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.serial import entity_reader

ASKED = struct.pack(">hhih2sx", 18, 3, 7, 2, b"me") + b"\x05test\x021\x00"
"""ApiVersions v3, correlation id 7, from the client `me` with the software test 1."""


@contextmanager
def served(*options: str) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    command = [sys.executable, "-m", "pyk", "serve", "--host", "127.0.0.1", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[-1].rpartition(":")
            yield process, (host, int(port))
        finally:
            process.kill()


def test_it_says_where_it_listens_and_answers_there() -> None:
    with served() as (_, address), socket.create_connection(address, timeout=10) as client:
        client.sendall(len(ASKED).to_bytes(4, "big") + ASKED)
        reply = client.makefile("rb")
        body = reply.read(int.from_bytes(reply.read(4), "big"))
        assert body[:4] == b"\0\0\0\7"
        response, size = entity_reader(ApiVersionsResponse)(body[4:], 0)
        assert size == len(body) - 4
        assert [key.api_key for key in response.api_keys] == [18]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_when_told(number: signal.Signals) -> None:
    with served() as (process, address), socket.create_connection(address, timeout=10):
        process.send_signal(number)
        assert process.wait(timeout=10) == 0


def test_a_port_in_use_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pyk", "serve", "--host", "127.0.0.1", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
