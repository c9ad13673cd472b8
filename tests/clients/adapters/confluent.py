"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.adapters.client import (
    REQUEST_BYTES_MAX,
    WAIT,
    Client,
    Cluster,
    Found,
    Position,
    Refused,
    Sent,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

NAMES = {
    KafkaError.MSG_SIZE_TOO_LARGE: "MESSAGE_TOO_LARGE",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
}
"""Where librdkafka's name of an error is not Kafka's."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
POSITIONS = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max timestamp": OffsetSpec.max_timestamp,
}


class Confluent(Client):
    name = "confluent-kafka"
    codecs = CODECS

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._config: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
        self._admin = AdminClient(self._config)

    def produce(
        self,
        topic: str,
        messages: Iterable[Sent],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        config = {
            **self._config,
            "acks": acks,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 50,
            "message.max.bytes": REQUEST_BYTES_MAX,
        }
        producer = Producer(config)
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for each in messages:
            more: dict[str, Any] = {}
            if each.timestamp is not None:
                more["timestamp"] = each.timestamp
            producer.produce(
                topic,
                each.value,
                each.key,
                headers=list(each.headers),
                partition=partition,
                on_delivery=note,
                **more,
            )
        assert producer.flush(WAIT) == 0
        if failures:
            raise Refused(name_of(failures[0]))

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        consumer = Consumer(
            {
                **self._config,
                "group.id": "nobody's",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, partition, offset)])
        found: list[Found] = []
        try:
            while True:
                message = consumer.poll(WAIT)
                assert message is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append(as_found(message))
        finally:
            consumer.close()

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        if isinstance(position, int):
            spec = OffsetSpec.for_timestamp(position)
        else:
            spec = POSITIONS[position]()  # type: ignore[no-untyped-call]
        found = self._done(self._admin.list_offsets({TopicPartition(topic, partition): spec}))
        offset: int = found[0].offset
        return None if offset < 0 else offset

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None
    ) -> None:
        asked = [
            NewTopic(name, count, 1, config=dict(configs or {})) for name, count in topics.items()
        ]
        self._done(self._admin.create_topics(asked))

    def delete_topics(self, topics: Sequence[str]) -> None:
        self._done(self._admin.delete_topics(list(topics)))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WAIT).topics)

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        found = self._done(self._admin.describe_topics(TopicCollection(list(topics))))
        assert all(each.leader is not None for topic in found for each in topic.partitions)
        return {topic.name: len(topic.partitions) for topic in found}

    def create_partitions(self, topic: str, count: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(topic, count)]))

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        asked = [TopicPartition(topic, partition, before)]
        (found,) = self._done(self._admin.delete_records(asked))
        low: int = found.low_watermark
        return low

    def describe_config(self, topic: str) -> dict[str, str | None]:
        asked = [ConfigResource(ResourceType.TOPIC, topic)]
        (found,) = self._done(self._admin.describe_configs(asked))
        return {name: entry.value for name, entry in found.items()}

    def alter_config(self, topic: str, key: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource = ConfigResource(ResourceType.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
        self._done(self._admin.incremental_alter_configs([resource]))

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(config))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            altering = self._admin.alter_configs([resource])
        self._done(altering)

    def describe_cluster(self) -> Cluster:
        found = self._admin.describe_cluster().result(WAIT)
        nodes = {each.id: f"{each.host}:{each.port}" for each in found.nodes}
        return Cluster(nodes, found.controller.id)

    @staticmethod
    def _done(futures: Mapping[Any, Future[T]]) -> list[T]:
        try:
            return [each.result(WAIT) for each in futures.values()]
        except KafkaException as failed:
            raise Refused(name_of(failed.args[0])) from failed


def name_of(error: KafkaError) -> str:
    return NAMES.get(error.code(), error.name())


def as_found(message: Message) -> Found:
    kind, timestamp = message.timestamp()
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    assert not isinstance(key, str)
    assert not isinstance(value, str)
    headers: Any = message.headers() or ()
    return Found(
        offset=offset,
        key=key,
        value=value,
        headers=tuple(headers),
        timestamp=timestamp,
        is_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
    )
