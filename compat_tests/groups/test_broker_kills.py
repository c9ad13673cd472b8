"""A broker that is killed again and again while groups of all clients commit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.groups.kinds import FRANZ, JAVA, JAVA_CONSUMER, KAFKAJS, marked
from compat_tests.kafka.server import KafkaServer, kafka_server
from tests.clients.brokers import RunningBroker, running
from tests.clients.groups.brokers import BROKER_SETTINGS, options
from tests.clients.groups.kinds import AIOKAFKA, CONFLUENT, CONFLUENT_CONSUMER, KAFKA_PYTHON, Kind
from tests.clients.groups.processes import Processes
from tests.clients.groups.test_broker_kills import commit_while_it_is_killed, kill
from tests.clients.ports import HOST, free_ports

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


# Not sarama: it tells nobody whether a commit was acknowledged.
@pytest.mark.parametrize(
    "kind",
    [marked(each) for each in (JAVA, JAVA_CONSUMER, FRANZ, KAFKAJS, KAFKA_PYTHON, AIOKAFKA)],
)
def test_pyk_loses_no_acknowledged_commit(kind: Kind, processes: Processes, tmp_path: Path) -> None:
    (port,) = free_ports(1)

    def life() -> AbstractContextManager[RunningBroker]:
        return running(tmp_path / "data", "--port", str(port), *options())

    commit_while_it_is_killed(life, kill, f"{HOST}:{port}", kind, processes)


@pytest.mark.groups
@pytest.mark.timeout(600)  # Kafka starts four times, and after a kill it looks through its logs.
@pytest.mark.parametrize(
    "kind", [JAVA, JAVA_CONSUMER, CONFLUENT, CONFLUENT_CONSUMER], ids=lambda kind: kind.name
)
def test_kafka_loses_no_acknowledged_commit(
    kind: Kind, processes: Processes, tmp_path: Path
) -> None:
    port, controller_port = free_ports(2)
    settings = {key: str(value) for key, value in BROKER_SETTINGS.items()}

    def life() -> AbstractContextManager[KafkaServer]:
        return kafka_server(settings, home=tmp_path, ports=(port, controller_port))

    def kill_it(kafka: KafkaServer) -> None:
        os.kill(kafka.pid, signal.SIGKILL)

    commit_while_it_is_killed(life, kill_it, f"{HOST}:{port}", kind, processes)
