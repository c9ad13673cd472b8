"""pyk and Apache Kafka 4.3.1 as processes that are measured: how they start, what they take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import clock_gettime, perf_counter, sleep
from typing import Final, NamedTuple

from compat_tests.kafka.server import kafka_server
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersionsRequest
from pyk.wire.request import encode_request
from tests.clients.ports import free_ports

HOST: Final = "127.0.0.1"
KAFKA_HEAP_MB: Final = 1024
API_VERSIONS: Final = b"".join(
    encode_request(ApiKey.API_VERSIONS, 0, 1, "pacer", ApiVersionsRequest())  # type: ignore[arg-type]
)


class Contestant(NamedTuple):
    name: str
    address: str
    pid: int
    answered_after: float
    """Seconds from the start of the process to its first answer."""

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def cpu_seconds(self) -> float:
        # The clock of another process, as clock_getcpuclockid(3) names it: /proc has only
        # hundredths of seconds.
        return clock_gettime(~self.pid << 3 | 2)

    def resident_megabytes(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (found,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
        return int(found) / 1024


@contextmanager
def both(home: Path, options: Mapping[str, str] = {}) -> Iterator[tuple[Contestant, Contestant]]:
    """pyk first, each with its defaults but for the options, and its files on the same disk."""
    with ExitStack() as stack:
        pyk = stack.enter_context(pyk_server(home / "pyk", options))
        yield pyk, stack.enter_context(kafka(home / "kafka", options))


@contextmanager
def kafka(home: Path, options: Mapping[str, str] = {}) -> Iterator[Contestant]:
    home.mkdir()
    with kafka_server(options, home=home, heap_mb=KAFKA_HEAP_MB, is_measured=True) as server:
        yield Contestant("Kafka", server.bootstrap_servers, server.pid, server.answered_after)


@contextmanager
def pyk_server(data_dir: Path, options: Mapping[str, str] = {}) -> Iterator[Contestant]:
    [port] = free_ports(1)
    command = [sys.executable, "-m", "pyk", "serve", "--host", HOST, "--port", str(port)]
    command += ["--data-dir", str(data_dir)]
    command += [word for pair in options.items() for word in ("-o", "=".join(pair))]
    # As it is installed: with compiled bytecode, which some environments switch off.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            _wait_until(lambda: answers((HOST, port)), process)
            took = perf_counter() - began
            yield Contestant("pyk", f"{HOST}:{port}", process.pid, took)
        finally:
            process.terminate()
            process.wait(20)


def answers(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(API_VERSIONS)
            return len(connection.recv(10)) == 10
    except OSError:
        return False


def _wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = perf_counter() + 60
    while not is_so():
        assert process.poll() is None, "it has ended"
        assert perf_counter() < deadline, "it does not answer"
        sleep(0.002)
