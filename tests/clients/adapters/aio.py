"""aiokafka, on an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, for_code

from tests.clients.adapters.client import (
    REQUEST_BYTES_MAX,
    Client,
    Cluster,
    Found,
    Position,
    Refused,
    Sent,
)

NAMES = {"MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}


class Aiokafka(Client):
    name = "aiokafka"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._runner = asyncio.Runner()
        self._admin: Any = self._run(self._started())

    async def _started(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        return admin

    def close(self) -> None:
        self._run(self._admin.close())
        self._runner.close()

    def _run(self, doing: Awaitable[Any]) -> Any:
        """Raise Refused for an error of the broker's."""

        async def do() -> Any:
            return await doing

        try:
            return self._runner.run(do())
        except BrokerResponseError as failed:
            raise Refused(NAMES.get(failed.message, failed.message)) from failed

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
        async def send() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.address,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=50,
                max_request_size=REQUEST_BYTES_MAX,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        each.value,
                        each.key,
                        partition=partition,
                        timestamp_ms=each.timestamp,
                        headers=list(each.headers),
                    )
                    for each in messages
                ]
                await producer.flush()
                for future in futures:
                    await future

        self._run(send())

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        async def read() -> list[Found]:
            where = TopicPartition(topic, partition)
            found: list[Found] = []
            async with AIOKafkaConsumer(bootstrap_servers=self.address) as consumer:
                consumer.assign([where])
                consumer.seek(where, offset)
                end = (await consumer.end_offsets([where]))[where]
                while await consumer.position(where) < end:
                    found.append(as_found(await consumer.getone()))
            return found

        result: list[Found] = self._run(read())
        return result

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        if position == "max timestamp":
            self.lacks("ask for the offset of the latest timestamp")

        async def ask() -> int | None:
            where = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=self.address) as consumer:
                consumer.assign([where])
                if position == "earliest":
                    return int((await consumer.beginning_offsets([where]))[where])
                if position == "latest":
                    return int((await consumer.end_offsets([where]))[where])
                found = (await consumer.offsets_for_times({where: position}))[where]
                return None if found is None else int(found.offset)

        result: int | None = self._run(ask())
        return result

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None
    ) -> None:
        asked = [
            NewTopic(name, count, 1, topic_configs=dict(configs or {}))
            for name, count in topics.items()
        ]
        check(self._run(self._admin.create_topics(asked)).topic_errors)

    def delete_topics(self, topics: Sequence[str]) -> None:
        check(self._run(self._admin.delete_topics(list(topics))).topic_error_codes)

    def list_topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        found = self._run(self._admin.describe_topics(list(topics)))
        check([(topic["topic"], topic["error_code"]) for topic in found])
        partitions = [each for topic in found for each in topic["partitions"]]
        assert all(each["leader"] >= 0 for each in partitions)
        return {topic["topic"]: len(topic["partitions"]) for topic in found}

    def create_partitions(self, topic: str, count: int) -> None:
        asked = {topic: NewPartitions(count)}
        check(self._run(self._admin.create_partitions(asked)).topic_errors)

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        asked = {where: RecordsToDelete(before_offset=before)}
        return int(self._run(self._admin.delete_records(asked))[where])

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (found,) = self._run(self._admin.describe_configs([resource]))
        ((code, _, _, name, entries),) = found.resources
        check([(name, code)])
        return {entry[0]: entry[1] for entry in entries}

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        (found,) = self._run(self._admin.alter_configs([resource]))
        check([(each[3], each[0]) for each in found.resources])

    def describe_cluster(self) -> Cluster:
        found = self._run(self._admin.describe_cluster())
        nodes = {each["node_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]}
        return Cluster(nodes, found["controller_id"])


def check(errors: Iterable[Sequence[Any]]) -> None:
    """Raise Refused for the first of pairs of a name and a code that is an error."""
    for _, code, *_ in errors:
        if code:
            raise Refused(for_code(code).message)


def as_found(message: Any) -> Found:
    return Found(
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp=message.timestamp,
        is_append_time=message.timestamp_type == 1,
    )
