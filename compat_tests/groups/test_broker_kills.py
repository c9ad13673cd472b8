"""A broker that is killed again and again while groups of all clients commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.brokers import mortal_kafka
from compat_tests.groups.kinds import FRANZ, JAVA, JAVA_CONSUMER, KAFKAJS, marked
from tests.clients.groups.brokers import BROKER_SETTINGS, options
from tests.clients.groups.kinds import AIOKAFKA, CONFLUENT, CONFLUENT_CONSUMER, KAFKA_PYTHON, Kind
from tests.clients.groups.processes import Processes
from tests.clients.groups.test_broker_kills import commit_while_it_is_killed
from tests.clients.mortal import mortal_pyk


# Not sarama: it tells nobody whether a commit was acknowledged.
@pytest.mark.parametrize(
    "kind",
    [marked(each) for each in (JAVA, JAVA_CONSUMER, FRANZ, KAFKAJS, KAFKA_PYTHON, AIOKAFKA)],
)
def test_pyk_loses_no_acknowledged_commit(kind: Kind, processes: Processes, tmp_path: Path) -> None:
    broker = mortal_pyk(tmp_path / "data", *options())
    commit_while_it_is_killed(broker, kind, processes)


@pytest.mark.groups
@pytest.mark.timeout(600)  # Kafka starts four times, and after a kill it looks through its logs.
@pytest.mark.parametrize(
    "kind", [JAVA, JAVA_CONSUMER, CONFLUENT, CONFLUENT_CONSUMER], ids=lambda kind: kind.name
)
def test_kafka_loses_no_acknowledged_commit(
    kind: Kind, processes: Processes, tmp_path: Path
) -> None:
    commit_while_it_is_killed(mortal_kafka(BROKER_SETTINGS, tmp_path), kind, processes)
