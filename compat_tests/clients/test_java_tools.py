"""Kafka's console tools say the same of pyk as of Kafka.

Each is run with both, as its users run it, and what it prints must be the same but for what each
broker has of its own: its address, its directory, its ids.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.kafka import jars
from compat_tests.kafka.server import kafka_server
from tests.clients.brokers import running

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
ADDRESS_FIRST = (FEATURES, TRANSACTIONS)

TIMEOUT = 300.0
OWN = {
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d+Z?"): "MOMENT",
    re.compile(r"(CreateTime|LogAppendTime):\d+"): r"\1:TIME",
    re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"): "ID",
    re.compile(r"Epoch: \d+"): "Epoch: NUMBER",
    re.compile(r"(errors\.\w+Exception): .*"): r"\1: SENTENCE",
}
"""What of an output each broker has of its own."""
SET_WHEN_FORMATTED = "min.insync.replicas=1"
"""Kafka writes this into its metadata where eligible leader replicas (KIP-966) are on."""


class Broker(NamedTuple):
    address: str
    data_dir: Path

    def ask(self, tool: str, *arguments: str, given: str = "") -> str:
        """What it prints, on both streams, and how it ends."""
        words = [*arguments, "--bootstrap-server", self.address]
        if tool in ADDRESS_FIRST:
            words = [*words[-2:], *arguments]
        command = jars.java_command(tool, *words)
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        said = done.stdout + "\n".join(
            line for line in done.stderr.splitlines() if not line.startswith(("SLF4J", "\tat "))
        )
        said = said.replace(str(self.data_dir), "DIRECTORY")
        said = said.replace(self.address, "ADDRESS")
        for own, told in OWN.items():
            said = own.sub(told, said)
        return f"{said.strip()}\nended with {done.returncode}".lstrip()


class Both(NamedTuple):
    kafka: Broker
    pyk: Broker

    def ask(self, tool: str, *arguments: str, given: str = "") -> str:
        """What the tool says, which is the same of both."""
        kafka, pyk = self.ask_each(tool, *arguments, given=given)
        assert pyk.splitlines() == kafka.splitlines()
        return pyk

    def ask_each(self, tool: str, *arguments: str, given: str = "") -> list[str]:
        with ThreadPoolExecutor(2) as threads:
            asking = [threads.submit(each.ask, tool, *arguments, given=given) for each in self]
            return [each.result() for each in asking]

    def create(self, topic: str, partitions: int = 1) -> None:
        said = self.ask(TOPICS, "--create", "--topic", topic, "--partitions", str(partitions))
        assert f"Created topic {topic}." in said


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with kafka_server() as kafka, running(tmp_path_factory.mktemp("data")) as pyk:
        both = Both(
            Broker(kafka.bootstrap_servers, kafka.data_dir), Broker(pyk.address, pyk.data_dir)
        )
        which = ("--entity-type", "brokers", "--entity-default")
        both.pyk.ask(CONFIGS, "--alter", *which, "--add-config", SET_WHEN_FORMATTED)
        yield both


@pytest.fixture
def topic() -> str:
    # Shorter than an id, so as not to be taken for one.
    return f"topic-{uuid.uuid4().hex[:8]}"


def test_topics_are_made_described_widened_and_deleted(both: Both, topic: str) -> None:
    both.create(topic, partitions=2)
    config = ("--config", "retention.ms=1000", "--config", "cleanup.policy=compact")
    both.ask(TOPICS, "--create", "--topic", f"{topic}-2", *config)
    assert "TopicExistsException" in both.ask(TOPICS, "--create", "--topic", topic)
    said = both.ask(TOPICS, "--describe", "--topic", topic)
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in said
    assert "retention.ms=1000" in both.ask(TOPICS, "--describe", "--topic", f"{topic}-2")
    both.ask(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    both.ask(TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 5" in both.ask(TOPICS, "--describe", "--topic", topic)
    assert topic in both.ask(TOPICS, "--list")
    both.ask(TOPICS, "--delete", "--topic", f"{topic}.*")
    assert topic not in both.ask(TOPICS, "--list")
    both.ask(TOPICS, "--delete", "--topic", topic)


def test_what_the_console_produces_it_consumes(both: Both, topic: str) -> None:
    both.create(topic)
    reader = [
        "parse.key=true",
        "parse.headers=true",
        "headers.delimiter=|",
        "key.separator=:",
        "headers.separator=;",
        "null.marker=NULL",
    ]
    properties = [word for each in reader for word in ("--reader-property", each)]
    lines = "name^one;name^two|key:value\nname^NULL|NULL:no key\nNULL|tombstone:NULL\n"
    lines = lines.replace("^", ":")
    how = ("--topic", topic, "--compression-codec", "zstd")
    both.ask(PRODUCER, *how, *properties, given=lines)
    shown = [f"print.{each}=true" for each in ("key", "value", "headers", "timestamp", "offset")]
    shown += ["null.literal=NULL", "print.partition=true"]
    formats = [word for each in shown for word in ("--formatter-property", each)]
    where = ("--topic", topic, "--partition", "0", "--offset", "earliest")
    found = both.ask(CONSUMER, *where, *formats, "--max-messages", "3")
    assert "name:one,name:two" in found
    assert "no key" in found
    assert "tombstone" in found


def test_offsets_are_told_and_records_deleted(both: Both, topic: str, tmp_path: Path) -> None:
    both.create(topic, partitions=3)
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    lines = "".join(f"{number}:value\n" for number in range(30))
    both.ask(PRODUCER, "--topic", topic, *keyed, given=lines)
    ends = offsets(both.ask(OFFSETS, "--topic", topic, "--time", "latest"))
    assert sum(ends) == 30
    for when in ("earliest-local", "latest-tiered"):
        both.ask(OFFSETS, "--topic", topic, "--time", when)
    for said in both.ask_each(OFFSETS, "--topic", topic, "--time", "max-timestamp"):
        assert len(offsets(said)) == 3
    where = tmp_path / "offsets.json"
    asked = [{"topic": topic, "partition": 0, "offset": 2}]
    asked += [{"topic": topic, "partition": 1, "offset": -1}]
    asked += [{"topic": topic, "partition": 2, "offset": 99}]
    where.write_text(json.dumps({"version": 1, "partitions": asked}))
    kafka, pyk = both.ask_each(DELETE_RECORDS, "--offset-json-file", str(where))
    # Partitions are told in the order in which their answers come.
    assert sorted(pyk.splitlines()) == sorted(kafka.splitlines())
    starts = offsets(both.ask(OFFSETS, "--topic", topic, "--time", "earliest"))
    assert starts == [2, ends[1], 0]


def offsets(said: str) -> list[int]:
    return [int(line.rsplit(":", 1)[1]) for line in said.splitlines()[:-1]]


def test_many_records_go_in_and_come_out(both: Both, topic: str) -> None:
    both.create(topic)
    load = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    assert "20000 records sent" in both.pyk.ask(PERFORMANCE, "--topic", topic, *load)
    where = ("--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "20000")
    found = both.pyk.ask(CONSUMER, *where, "--timeout-ms", "20000")
    assert len([line for line in found.splitlines() if len(line) == 200]) == 20_000
    assert "Processed a total of 20000 messages" in found


def test_configurations_are_changed_and_described(both: Both, topic: str) -> None:
    both.create(topic)
    which = ("--entity-type", "topics", "--entity-name", topic)
    change = "retention.ms=1000,cleanup.policy=[compact,delete]"
    both.ask(CONFIGS, "--alter", *which, "--add-config", change)
    assert "retention.ms=1000 sensitive=false" in both.ask(CONFIGS, "--describe", *which)
    both.ask(CONFIGS, "--alter", *which, "--delete-config", "retention.ms")
    assert "retention.ms=1000" not in both.ask(CONFIGS, "--describe", *which)
    both.ask(CONFIGS, "--describe", "--all", *which)
    assert "ended with 1" in both.ask(CONFIGS, "--alter", *which, "--add-config", "no.such=1")
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    both.ask(CONFIGS, "--alter", *broker, "--add-config", "log.retention.ms=777777")
    for said in both.ask_each(CONFIGS, "--describe", *broker):
        assert "log.retention.ms=777777" in said


def test_log_directories_are_described(both: Both, topic: str) -> None:
    both.create(topic, partitions=2)
    said = both.ask(LOG_DIRS, "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-1"' in said


def test_versions_are_those_of_kafka_where_they_are_served(both: Both) -> None:
    kafka, pyk = (set(said.splitlines()) for said in both.ask_each(VERSIONS))
    served = {line for line in pyk if "UNSUPPORTED" not in line}
    assert served <= kafka, served - kafka
    assert any("Produce(0): 0 to 13 [usable: 13]" in line for line in served)


def test_features_are_described(both: Both) -> None:
    kafka, pyk = (set(said.splitlines()) for said in both.ask_each(FEATURES, "describe"))
    assert pyk <= kafka
    assert any("metadata.version" in line for line in pyk)


def test_the_cluster_has_an_id(both: Both) -> None:
    assert "Cluster ID: ID" in both.ask(CLUSTER, "cluster-id")
