"""`pyk serve`, as a user runs it: another process, and a client that nobody here wrote."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.serial import entity_reader

from pyk.cli.serve import verdict
from pyk.disk import SyncFailed
from pyk.wire.compression import CorruptBatch
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


def test_it_shows_metrics_and_whether_it_is_ready(tmp_path: Path) -> None:
    with running(tmp_path, "--http-port", "0") as broker:
        assert broker.process.stdout is not None
        said = broker.process.stdout.readline()
        assert said.startswith("Metrics are at http://")
        url = said.split()[-1]
        with urlopen(url.replace("/metrics", "/ready"), timeout=10) as answer:
            assert (answer.status, answer.read()) == (200, b"ready\n")
        with urlopen(url, timeout=10) as answer:
            assert b'pyk_connections{listener="PLAINTEXT"} 0\n' in answer.read()


def test_a_port_for_metrics_that_was_asked_for_and_is_taken_is_a_clear_error(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pyk", "serve", "--port", "0", "--data-dir", str(tmp_path)]
        command += ["--http-host", "127.0.0.1", "--http-port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port} for HTTP" in done.stderr
    assert "--no-http" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_log_can_be_lines_of_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyk", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    command += ["--log-format", "json", "-o", "no.such.key=1", "-o", "log.segment.bytes=x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    line = json.loads(done.stderr.splitlines()[0])
    assert (line["level"], line["message"]) == (
        "WARNING",
        "Configuration that does nothing (unknown: no.such.key).",
    )


def test_systemd_hears_that_it_is_ready_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with served(tmp_path / "data") as (process, _):
            assert systemd.recv(100) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"


def refused(data_dir: Path, *options: str) -> list[str]:
    """What a broker that does not start says."""
    command = [sys.executable, "-m", "pyk", "serve", "--port", "0", "--data-dir", str(data_dir)]
    command += ["--no-http", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def test_damaged_metadata_is_named_and_nothing_is_said_of_listening(tmp_path: Path) -> None:
    with running(tmp_path):
        pass
    store = tmp_path / "metadata" / "metadata.log"
    store.write_bytes(b"damaged " + store.read_bytes())
    (line,) = refused(tmp_path)
    assert str(store) in line
    assert "damaged" in line


def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (line,) = refused(tmp_path / "file" / "data")
    assert str(tmp_path / "file") in line
    assert "listen" not in line


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (SyncFailed("x.log was not synced"), "a write to the disk failed: x.log was not synced"),
        (CorruptBatch("bad magic"), "a bug: CorruptBatch: bad magic"),
        (KeyError("x"), "a bug: KeyError: 'x'"),
        (OSError(24, "Too many open files", "/data/x"), "/data/x: Too many open files"),
        (BrokenPipeError(32, "Broken pipe"), "a bug: BrokenPipeError"),
    ],
)
def test_what_ends_a_broker_is_named(failed: BaseException, said: str) -> None:
    assert said in verdict(failed)
