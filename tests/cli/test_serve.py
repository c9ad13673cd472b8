"""`pyk serve`, as a user runs it: another process, and a client that nobody here wrote."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.serial import entity_reader

from tests.clients.brokers import running

ASKED = struct.pack(">hhih2sx", 18, 3, 7, 2, b"me") + b"\x05test\x021\x00"
"""ApiVersions v3, correlation id 7, from the client `me` with the software test 1."""


@contextmanager
def served(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    with running(data_dir) as broker:
        host, _, port = broker.address.rpartition(":")
        yield broker.process, (host, int(port))


def test_it_says_where_it_listens_and_answers_there(tmp_path: Path) -> None:
    with served(tmp_path) as (_, address), socket.create_connection(address, timeout=10) as client:
        client.sendall(len(ASKED).to_bytes(4, "big") + ASKED)
        reply = client.makefile("rb")
        body = reply.read(int.from_bytes(reply.read(4), "big"))
        assert body[:4] == b"\0\0\0\7"
        response, size = entity_reader(ApiVersionsResponse)(body[4:], 0)
        assert size == len(body) - 4
        assert {key.api_key for key in response.api_keys} >= {0, 1, 2, 3, 18, 22, 23}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_when_told(number: signal.Signals, tmp_path: Path) -> None:
    with served(tmp_path) as (process, address), socket.create_connection(address, timeout=10):
        process.send_signal(number)
        assert process.wait(timeout=10) == 0


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pyk", "serve", "--host", "127.0.0.1", "--port", port]
        command += ["--data-dir", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with served(tmp_path):
        command = [sys.executable, "-m", "pyk", "serve", "--port", "0", "--data-dir", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "in use by another broker" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_that_do_nothing_are_named_in_one_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyk", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    command += ["-o", "num.io.threads=3", "-o", "no.such.key=1", "-o", "log.segment.bytes=x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == 1
    assert "unknown: no.such.key; without effect in pyk: num.io.threads" in done.stderr
    assert "log.segment.bytes" in done.stderr.splitlines()[-1]
