"""Topics for Spark to read, written by librdkafka, on pyk or on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from tests.clients.stored import wait_until_known

WAIT: Final = 60.0
_numbers = count()


class Topics:
    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._address: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient(self._address)
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer({**self._address, "linger.ms": 1})

    def create(
        self, stem: str = "topic", partitions: int = 1, configs: Mapping[str, str] = {}
    ) -> str:
        """A new topic, whose name begins so."""
        return self.create_named(f"{stem}-{next(_numbers)}", partitions, configs)

    def create_named(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> str:
        asked = NewTopic(
            name, num_partitions=partitions, replication_factor=1, config=dict(configs)
        )
        self._admin.create_topics([asked])[name].result(WAIT)
        wait_until_known(self.bootstrap_servers, name, partitions)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(WAIT)
        wait_until_known(self.bootstrap_servers, topic, total)
        # The one that is there knows how many there were.
        self._producer = self._new_producer()

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(WAIT)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        [done] = self._admin.delete_records([At(topic, partition, before)]).values()
        done.result(WAIT)

    def write(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> None:
        """Each as a record, and return when all are there. Values that are not bytes or None become
        text."""
        options: dict[str, Any] = {} if timestamp is None else {"timestamp": timestamp}
        for value in values:
            data = value if value is None or isinstance(value, bytes) else str(value).encode()
            self._producer.produce(
                topic, data, partition=partition, key=key, headers=list(headers), **options
            )
        assert self._producer.flush(WAIT) == 0

    def read(self, topic: str, partition: int = 0) -> list[Message]:
        """What a plain reader of committed records finds up to the end."""
        consumer = Consumer(
            {
                **self._address,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([At(topic, partition, OFFSET_BEGINNING)])
        found: list[Message] = []
        while True:
            message = consumer.poll(WAIT)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return found
            found.append(message)

    def begin(self, transactional_id: str) -> Producer:
        """A producer whose transactions may begin."""
        producer = Producer({**self._address, "transactional.id": transactional_id})
        producer.init_transactions(WAIT)
        return producer


def in_transaction(
    producer: Producer, topic: str, values: Iterable[object], *, commits: bool, partition: int = 0
) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value).encode(), partition=partition)
    assert producer.flush(WAIT) == 0
    if commits:
        producer.commit_transaction(WAIT)
    else:
        producer.abort_transaction(WAIT)
