"""Producers in the middle of a transaction, and readers of what is committed."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from pyk.client.cluster import Cluster
from pyk.client.transactions import Transaction, describe_transactions

WAIT = 90.0
TIMEOUT_MS = 600_000


def begin(address: str, transactional_id: str, topic: str, partition: int = 0) -> Producer:
    """A producer that has written a record, and nothing more yet. It has ten minutes."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=partition)
    assert producer.flush(WAIT) == 0
    return producer


def commit(producer: Producer, address: str, transactional_id: str) -> None:
    """Return when all partitions know. A producer is answered before they do."""
    producer.commit_transaction(WAIT)
    deadline = time.monotonic() + WAIT
    with Cluster.connect(address) as cluster:
        while True:
            found = describe_transactions(cluster, [transactional_id])[transactional_id]
            assert isinstance(found, Transaction), found
            if found.state == "CompleteCommit":
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.01)


class CommittedReader:
    """One that reads only what is committed of partition 0."""

    def __init__(self, address: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def read_to_the_end(self) -> list[bytes | None]:
        """What there is up to where it may read."""
        found: list[bytes | None] = []
        while True:
            message = self._consumer.poll(WAIT)
            assert message is not None, "nothing more comes, and not the end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(message.value())

    def next(self) -> bytes | None:
        """What comes next, however long it takes."""
        message = self._consumer.poll(WAIT)
        assert message is not None
        assert message.error() is None, message.error()
        value = message.value()
        assert value is None or isinstance(value, bytes)
        return value

    def close(self) -> None:
        self._consumer.close()
