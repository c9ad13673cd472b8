"""Java's transactional producer, which speaks the second version of transactions (KIP-890)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from compat_tests.kafka import jars
from tests.clients.brokers import RunningBroker

SOURCE = Path(__file__).with_name("JavaTransactions.java")
WAIT = 60


class JavaProducer:
    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        command = jars.java_command(
            "JavaTransactions",
            address,
            transactional_id,
            str(timeout_ms),
            jvm=jars.QUICK_START,
            classes=jars.compiled(SOURCE),
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def do(self, line: str) -> str:
        """What came of it: ok, or the name of an exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def all_ok(self, *lines: str) -> None:
        for line in lines:
            assert self.do(line) == "ok", line

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


Begin = Callable[..., JavaProducer]


@pytest.fixture
def begin(broker: RunningBroker) -> Iterator[Begin]:
    producers: list[JavaProducer] = []

    def begin(transactional_id: str, timeout_ms: int = 60_000) -> JavaProducer:
        producers.append(JavaProducer(broker.address, transactional_id, timeout_ms))
        producers[-1].all_ok("init")
        return producers[-1]

    yield begin
    for producer in producers:
        producer.close()


def committed_records(broker: RunningBroker, topic: str) -> list[str]:
    """What a reader of committed records finds up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[str] = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        value = message.value()
        assert value is not None
        found.append(value.decode())


def committed_offset(broker: RunningBroker, group_id: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group_id})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT)
    consumer.close()
    return int(found.offset)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    broker: RunningBroker, begin: Begin, topic: str
) -> None:
    producer = begin("writer")
    for number, outcome in enumerate(("commit", "abort", "commit", "abort", "commit")):
        producer.all_ok(
            "begin",
            f"send {topic} 0 {number}-a",
            f"send {topic} 0 {number}-b",
            f"send {topic}-too 0 {number}-c",
            outcome,
        )
    assert committed_records(broker, topic) == ["0-a", "0-b", "2-a", "2-b", "4-a", "4-b"]
    assert committed_records(broker, f"{topic}-too") == ["0-c", "2-c", "4-c"]


def test_offsets_count_if_the_transaction_is_committed(
    broker: RunningBroker, begin: Begin, topic: str
) -> None:
    producer = begin("copier")
    producer.all_ok("begin", f"send {topic} 0 one", f"offset readers {topic} 0 1", "commit")
    assert committed_offset(broker, "readers", topic) == 1
    producer.all_ok("begin", f"send {topic} 0 two", f"offset readers {topic} 0 2", "abort")
    assert committed_offset(broker, "readers", topic) == 1


def test_a_producer_that_was_replaced_is_fenced(
    broker: RunningBroker, begin: Begin, topic: str
) -> None:
    zombie = begin("replaced")
    zombie.all_ok("begin", f"send {topic} 0 lost")
    successor = begin("replaced")
    assert zombie.do(f"send {topic} 0 late") != "ok"
    assert zombie.do("commit") in ("ProducerFencedException", "InvalidProducerEpochException")
    successor.all_ok("begin", f"send {topic} 0 kept", "commit")
    assert committed_records(broker, topic) == ["kept"]


def test_a_transaction_that_takes_too_long_is_aborted(
    broker: RunningBroker, begin: Begin, topic: str
) -> None:
    slow = begin("slow", timeout_ms=1000)
    slow.all_ok("begin", f"send {topic} 0 lost")
    # A reader of committed records comes to the end only when the transaction is over.
    assert committed_records(broker, topic) == []
    assert slow.do("commit") != "ok"
    assert committed_records(broker, topic) == []
