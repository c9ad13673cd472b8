"""The client against a broker of ours, as its users use it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyk.client.address import Address
from pyk.client.cluster import Cluster
from pyk.client.configs import (
    Change,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from pyk.client.connection import Unreachable
from pyk.client.offsets import EARLIEST, LATEST, find_offsets, list_offsets
from pyk.client.producing import Acked, Producer
from pyk.client.reading import Reader, Span
from pyk.client.settings import ClientSettings
from pyk.client.topics import create_partitions, create_topics, delete_records, delete_topics
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.compression import Compression
from tests.clients.brokers import RunningBroker, running
from tests.clients.ports import free_ports


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture
def cluster(broker: RunningBroker) -> Iterator[Cluster]:
    with Cluster.connect(broker.address) as cluster:
        yield cluster


@pytest.mark.parametrize("codec", Compression)
def test_what_is_produced_is_read(cluster: Cluster, codec: Compression) -> None:
    name = f"round-{codec.name}"
    assert create_topics(cluster, [name], partitions=3) == {name: None}
    acked: list[Acked] = []
    with Producer(cluster, compression=codec, on_ack=acked.extend) as producer:
        for number in range(500):
            headers = (("n", b"%d" % number), ("none", None))
            producer.send(name, b"v%d" % number, key=b"k%d" % number, headers=headers)
        producer.send(name, None, key=b"gone", partition=2, timestamp=1234)
    received = list(Reader.of_topic(cluster, name))
    sent = {(each.partition, each.record.offset): each.record for each in acked}
    assert {(each.partition, each.record.offset): each.record for each in received} == sent
    assert len(received) == 501
    assert received[-1].partition == 2
    last = received[-1].record
    assert (last.key, last.value, last.timestamp) == (b"gone", None, 1234)


def test_a_topic_is_created_by_sending_to_it(cluster: Cluster) -> None:
    with Producer(cluster) as producer:
        producer.send("sent-to", b"x")
    assert [r.record.value for r in Reader.of_topic(cluster, "sent-to")] == [b"x"]
    with pytest.raises(KafkaError, match="there is no topic never-sent-to") as raised:
        Producer(cluster, may_create=False).send("never-sent-to", b"x")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_without_a_key_stay_together_until_they_are_sent(cluster: Cluster) -> None:
    create_topics(cluster, ["keyless"], partitions=8)
    acked: list[Acked] = []
    with Producer(cluster, on_ack=acked.extend) as producer:
        for number in range(100):
            producer.send("keyless", b"%d" % number)
    assert len({each.partition for each in acked}) == 1
    assert [each.record.offset for each in acked] == list(range(100))


def test_a_batch_that_is_too_large_for_its_topic_is_sent_in_parts(cluster: Cluster) -> None:
    create_topics(cluster, ["narrow"], partitions=1, configs={"max.message.bytes": "2000"})
    values = [b"%03d" % number + b"x" * 200 for number in range(40)]
    with Producer(cluster) as producer:
        for value in values:
            producer.send("narrow", value)
    assert [r.record.value for r in Reader.of_topic(cluster, "narrow")] == values
    with pytest.raises(KafkaError) as raised, Producer(cluster) as producer:
        producer.send("narrow", b"x" * 3000)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks_are_as_asked(cluster: Cluster, acks: int) -> None:
    name = f"acks{acks}"
    create_topics(cluster, [name], partitions=1)
    acked: list[Acked] = []
    with Producer(cluster, acks=acks, on_ack=acked.extend) as producer:
        producer.send(name, b"x")
    assert [each.record.offset for each in acked] == [-1 if acks == 0 else 0]
    # The same connection, so the answer comes after what was sent without one.
    assert find_offsets(cluster, {TopicPartition(name, 0): LATEST}).popitem()[1] == 1


def test_a_span_is_read_from_the_middle_of_a_batch_to_the_middle_of_another(
    cluster: Cluster,
) -> None:
    create_topics(cluster, ["spans"], partitions=1)
    for _ in range(3):
        with Producer(cluster) as producer:
            for _ in range(10):
                producer.send("spans", b"x")
    reader = Reader(cluster, {TopicPartition("spans", 0): Span(5, 25)})
    assert [received.record.offset for received in reader] == list(range(5, 25))
    assert reader.is_finished
    assert list(Reader(cluster, {TopicPartition("spans", 0): Span(7, 7)})) == []


def test_an_offset_out_of_range_is_an_error_that_says_the_range(cluster: Cluster) -> None:
    create_topics(cluster, ["short"], partitions=1)
    with Producer(cluster) as producer:
        producer.send("short", b"x")
    with pytest.raises(KafkaError, match="offset 9 of short-0 is out of range: it has 0 up to 1"):
        next(iter(Reader(cluster, {TopicPartition("short", 0): Span(9)})))


def test_offsets_are_found_by_time(cluster: Cluster) -> None:
    create_topics(cluster, ["timed"], partitions=1)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send("timed", b"x", timestamp=1_700_000_000_000 + number)
    timed = TopicPartition("timed", 0)
    assert find_offsets(cluster, {timed: 1_700_000_000_004}) == {timed: 4}
    assert find_offsets(cluster, {timed: 1_800_000_000_000}) == {timed: -1}
    assert find_offsets(cluster, {timed: EARLIEST}) == {timed: 0}
    missing = TopicPartition("timed", 7)
    (error,) = list_offsets(cluster, {missing: LATEST}).values()
    assert isinstance(error, KafkaError)
    assert "timed has no partition 7; it has 1" in str(error)


def test_topics_are_extended_trimmed_and_deleted(cluster: Cluster) -> None:
    create_topics(cluster, ["short-lived"], partitions=1)
    create_partitions(cluster, "short-lived", 2)
    assert list(cluster.topic("short-lived").partitions) == [0, 1]
    with Producer(cluster) as producer:
        for _ in range(4):
            producer.send("short-lived", b"x", partition=1)
    second = TopicPartition("short-lived", 1)
    assert delete_records(cluster, {second: 3}) == {second: 3}
    assert [r.record.offset for r in Reader.of_topic(cluster, "short-lived")] == [3]
    results = delete_topics(cluster, ["short-lived", "nobody"])
    assert results["short-lived"] is None
    assert results["nobody"] is not None
    with pytest.raises(KafkaError, match="there is no topic"):
        cluster.topic("short-lived", is_fresh=True)


def test_configurations_are_changed_and_explained(cluster: Cluster) -> None:
    create_topics(cluster, ["configured"])
    of_topic = Resource(ResourceType.TOPIC, "configured")
    alter_configs(cluster, of_topic, [Change("retention.ms", Operation.SET, "5")])
    (found,) = describe_configs(cluster, of_topic, ["retention.ms"], is_explained=True)
    assert (found.value, found.synonyms[0].name) == ("5", "retention.ms")
    with pytest.raises(KafkaError, match=r"there is no topic/nobody"):
        describe_configs(cluster, Resource(ResourceType.TOPIC, "nobody"))
    with pytest.raises(KafkaError, match="there is no broker 7"):
        describe_configs(cluster, Resource(ResourceType.BROKER, "7"))


def test_any_of_the_bootstrap_servers_will_do(broker: RunningBroker) -> None:
    [port] = free_ports(1)
    closed = f"127.0.0.1:{port}"
    with Cluster.connect(f"{closed},{broker.address}") as cluster:
        assert len(cluster.metadata(()).brokers) == 1
    with pytest.raises(Unreachable, match=closed):
        Cluster.connect(closed).metadata()


def test_a_broker_that_is_killed_and_comes_back_has_each_record_once(tmp_path: Path) -> None:
    [port] = free_ports(1)
    command = [sys.executable, "-m", "pyk", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--data-dir", str(tmp_path)]

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    settings = ClientSettings(bootstrap=(Address("127.0.0.1", port),), patience=60)
    process = start()
    with Cluster(settings) as cluster:
        producer = Producer(cluster)
        for number in range(3):
            producer.send("kept", b"%d" % number)
            producer.flush()
            process.send_signal(signal.SIGKILL)
            process.communicate()
            process = start()
        # Whatever is asked next is asked over a connection that is gone.
        assert create_topics(cluster, ["afterwards"]) == {"afterwards": None}
        producer.send("kept", b"3")
        producer.flush()
        assert [r.record.value for r in Reader.of_topic(cluster, "kept")] == [
            b"0", b"1", b"2", b"3",
        ]  # fmt: skip
    process.terminate()
    process.communicate()
