"""kafka-python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

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

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 finds old.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
    from kafka.errors import BrokerResponseError, KafkaError

NAMES = {"MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}
POSITIONS = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max timestamp": OffsetSpec.MAX_TIMESTAMP,
}


class KafkaPython(Client):
    name = "kafka-python"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    def close(self) -> None:
        self._admin.close()

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
        messages = list(messages)
        if any(value is None for each in messages for _, value in each.headers):
            self.lacks("send headers that are null")
        producer = KafkaProducer(
            bootstrap_servers=self.address,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=50,
            max_request_size=REQUEST_BYTES_MAX,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    each.value,
                    each.key,
                    headers=list(each.headers),
                    partition=partition,
                    timestamp_ms=each.timestamp,
                )
                for each in messages
            ]
            producer.flush(WAIT)
            for future in futures:
                asked(partial(future.get, WAIT))

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        where = TopicPartition(topic, partition)
        found: list[Found] = []
        with closing(KafkaConsumer(bootstrap_servers=self.address)) as consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            end = consumer.end_offsets([where])[where]
            while consumer.position(where) < end:
                found.extend(map(as_found, consumer.poll(WAIT * 1000).get(where, ())))
        return found

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        spec = position if isinstance(position, int) else POSITIONS[position]
        found = asked(lambda: self._admin.list_partition_offsets({where: spec}))[where]
        return None if found is None or found.offset < 0 else int(found.offset)

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = {
            name: {"num_partitions": count, "replication_factor": 1, "configs": dict(configs or {})}
            for name, count in topics.items()
        }
        asked(lambda: self._admin.create_topics(wanted))

    def delete_topics(self, topics: Sequence[str]) -> None:
        asked(lambda: self._admin.delete_topics(list(topics)))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        found = asked(lambda: self._admin.describe_topics(list(topics)))
        partitions = [each for topic in found for each in topic["partitions"]]
        assert all(each["leader_id"] >= 0 for each in partitions)
        return {topic["name"]: len(topic["partitions"]) for topic in found}

    def create_partitions(self, topic: str, count: int) -> None:
        asked(lambda: self._admin.create_partitions({topic: count}))

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        found = asked(lambda: self._admin.delete_records({where: before}))
        return int(found[where]["low_watermark"])

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = asked(lambda: self._admin.describe_configs([resource], config_filter="all"))
        ((_, by_name),) = found.items()
        return {name: entry["value"] for name, entry in by_name[topic].items()}

    def alter_config(self, topic: str, key: str, value: str | None) -> None:
        change = ("DELETE", None) if value is None else ("SET", value)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: change})
        found = asked(lambda: self._admin.alter_configs([resource], raise_on_unknown=False))
        outcome = found["topic"][topic]
        if outcome != "OK":
            raise Refused(outcome.replace("InvalidConfigurationError", "INVALID_CONFIG"))

    def describe_cluster(self) -> Cluster:
        found = self._admin.describe_cluster()
        nodes = {each["broker_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]}
        return Cluster(nodes, found["controller_id"])

    def describe_log_dirs(self) -> dict[str, set[tuple[str, int]]]:
        (broker,) = self._admin.describe_log_dirs()
        return {
            each["log_dir"]: {
                (topic["name"], partition["partition_index"])
                for topic in each["topics"]
                for partition in topic["partitions"]
            }
            for each in broker["log_dirs"]
        }

    def describe_features(self) -> dict[str, int]:
        found = self._admin.describe_features()
        return {name: each["finalized"][1] for name, each in found.items()}


def asked(ask: Callable[[], Any]) -> Any:
    """The answer. Raise Refused for an error of the broker's."""
    try:
        return ask()
    except KafkaError as failed:
        if isinstance(failed, BrokerResponseError):
            raise Refused(NAMES.get(failed.message, failed.message)) from failed
        raise


def as_found(message: Any) -> Found:
    return Found(
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp=message.timestamp,
        is_append_time=message.timestamp_type == 1,
    )
