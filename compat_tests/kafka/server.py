"""A real Apache Kafka of one node, controller and broker in one, for as long as a context.

It lives in a temporary directory, listens on loopback only, and dies with the process that started
it: its stdin is a pipe held here, and `Tether.java` halts it when that closes.
"""

import base64
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.kafka import jars
from pyk.wire.apis import ApiKey
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.clients.ports import HOST, free_ports
from tests.clients.raw import RawClient

START_TIMEOUT = 180.0
STOP_TIMEOUT = 60.0
POLL_INTERVAL = 0.01
LOG_LINES = 60

TETHER = Path(__file__).with_name("Tether.java")
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A whole frame: length, API key, version, correlation id, no client id."""

ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
LOGGING = {
    "rootLogger.level": "info",
    "rootLogger.appenderRef.console.ref": "console",
    "appender.console.type": "Console",
    "appender.console.name": "console",
    "appender.console.layout.type": "PatternLayout",
    "appender.console.layout.pattern": "[%d] %p %m (%c)%n",
}


class ServerFailed(Exception):
    """Kafka did not start. The message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class KafkaServer:
    host: str
    port: int
    data_dir: Path
    pid: int
    log: Path
    answered_after: float
    """Seconds from the start of its process to the first answer."""

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"


@contextmanager
def kafka_server(
    overrides: Mapping[str, str] = {},
    *,
    heap_mb: int = 512,
    home: Path | None = None,
    ports: tuple[int, int] | None = None,
    is_measured: bool = False,
) -> Iterator[KafkaServer]:
    """A server that answers. `overrides` are added to its properties, or replace them. `ports` are
    the broker's and the controller's, or else free ones. For `is_measured` see `java_command`.

    It keeps its files in `home`, where it goes on with what it finds, or else in a directory that
    goes with it; then it is not given the time to close them. Raises `jars.Missing`, and
    `ServerFailed` if it does not answer within `START_TIMEOUT`.
    """
    with ExitStack() as stack:
        is_left = home is not None or "log.dirs" in overrides
        if home is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyk-kafka-")))
        port, controller_port = ports or free_ports(2)
        properties = {**_properties(home, port, controller_port), **overrides}
        is_new = not (home / "server.properties").exists()
        config = _written(home / "server.properties", properties)
        if is_new:
            _format(config)
        began = time.monotonic()
        process = stack.enter_context(_running(home, config, heap_mb, is_left, is_measured))
        log = home / "server.log"
        _wait_until_it_answers(port, process, log)
        yield KafkaServer(
            host=HOST,
            port=port,
            data_dir=Path(properties["log.dirs"]),
            pid=process.pid,
            log=log,
            answered_after=time.monotonic() - began,
        )


def wait_until_it_leads(server: KafkaServer) -> None:
    """A Kafka that goes on with old logs answers before it leads them, and then says so."""
    logs = [log.name.rpartition("-") for log in server.data_dir.glob("*-[0-9]*") if log.is_dir()]
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=int(number), timestamp=-1)],
        )
        for topic, _, number in logs
        if topic != "__cluster_metadata"
    ]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    deadline = time.monotonic() + START_TIMEOUT
    with RawClient(server.bootstrap_servers) as client:
        while any(
            partition.error_code
            for topic in client.ask(ApiKey.LIST_OFFSETS, 5, request).topics
            for partition in topic.partitions
        ):
            if time.monotonic() > deadline:
                raise ServerFailed(f"it does not lead its partitions:\n{_tail(server.log)}")
            time.sleep(POLL_INTERVAL)


def _properties(home: Path, port: int, controller_port: int) -> dict[str, str]:
    return ONE_NODE | {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "log.dirs": str(home / "data"),
    }


def _format(config: Path) -> None:
    # The zero byte keeps it from beginning with a dash, which the tool would take for an option.
    cluster_id = base64.urlsafe_b64encode(b"\0" + os.urandom(15)).decode().rstrip("=")
    where = ("-t", cluster_id, "-c", str(config), "--standalone")
    jars.run_java("kafka.tools.StorageTool", "format", *where)


@contextmanager
def _running(
    home: Path, config: Path, heap_mb: int, is_left: bool, is_measured: bool
) -> Iterator[subprocess.Popen[bytes]]:
    logging = _written(home / "log4j2.properties", LOGGING)
    command = jars.java_command(
        "Tether",
        "kafka.Kafka",
        str(config),
        jvm=(f"-Xmx{heap_mb}m", f"-Dlog4j2.configurationFile={logging}"),
        classes=jars.compiled(TETHER),
        is_measured=is_measured,
    )
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=home
        )
    try:
        yield process
    finally:
        _stop(process, signal.SIGTERM if is_left else signal.SIGKILL)


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not _answers(port):
        if process.poll() is not None:
            raise ServerFailed(f"Kafka ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"no answer in {START_TIMEOUT:.0f} s:\n{_tail(log)}")
        time.sleep(POLL_INTERVAL)


def _answers(port: int) -> bool:
    """Whether ApiVersions is answered, without an error."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(API_VERSIONS_V0)
            with connection.makefile("rb") as stream:
                reply = stream.read(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack_from(">ih", reply, 4) == (1, 0)


def _written(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-LOG_LINES:])
