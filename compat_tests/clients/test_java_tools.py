"""Kafka's own client and tools against pyk, as their users call them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.kafka.jars import run_java
from tests.clients.brokers import RunningBroker, running

TOOLS = "org.apache.kafka.tools"
TOPIC = "numbers"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        create = ("--create", "--topic", TOPIC, "--partitions", "2")
        assert f"Created topic {TOPIC}." in ask(broker, f"{TOOLS}.TopicCommand", *create)
        yield broker


def ask(broker: RunningBroker, tool: str, *arguments: str) -> str:
    return run_java(tool, "--bootstrap-server", broker.address, *arguments)


def test_a_topic_is_described(broker: RunningBroker) -> None:
    found = ask(broker, f"{TOOLS}.TopicCommand", "--describe", "--topic", TOPIC)
    assert "PartitionCount: 2\tReplicationFactor: 1" in found
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in found


def test_versions_are_usable(broker: RunningBroker) -> None:
    found = ask(broker, f"{TOOLS}.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13 [usable: 13]" in found
    assert "Fetch(1): 4 to 18 [usable: 18]" in found


def test_what_java_produces_it_consumes(broker: RunningBroker) -> None:
    load = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    sent = ask(broker, f"{TOOLS}.ProducerPerformance", "--topic", TOPIC, *load)
    assert "20000 records sent" in sent
    offsets = ask(broker, f"{TOOLS}.GetOffsetShell", "--topic", TOPIC)
    counts = [int(line.rsplit(":", 1)[1]) for line in offsets.split()]
    assert sum(counts) == 20_000
    where = ("--partition", "1", "--offset", "0", "--max-messages", str(counts[1]))
    limit = ("--timeout-ms", "20000")
    found = ask(broker, f"{TOOLS}.consumer.ConsoleConsumer", "--topic", TOPIC, *where, *limit)
    assert len([line for line in found.splitlines() if len(line) == 200]) == counts[1]


def test_a_configuration_is_changed_and_described(broker: RunningBroker) -> None:
    topic = ("--entity-type", "topics", "--entity-name", TOPIC)
    ask(broker, "kafka.admin.ConfigCommand", "--alter", *topic, "--add-config", "retention.ms=1000")
    found = ask(broker, "kafka.admin.ConfigCommand", "--describe", *topic)
    assert "retention.ms=1000 sensitive=false" in found


def test_log_directories_are_described(broker: RunningBroker) -> None:
    found = ask(broker, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", TOPIC)
    assert f'"logDir":"{broker.data_dir}"' in found
