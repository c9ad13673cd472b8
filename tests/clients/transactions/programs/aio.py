"""Transactions of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.clients.groups.programs.member import Offset, Partition
from tests.clients.transactions.programs.actor import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    POLL_SECONDS,
    RECORDS_MAX,
    Command,
    Found,
    Pause,
    Refused,
    Told,
    run,
)

Result = TypeVar("Result")

FAILURES = (KafkaError, AssertionError)
"""It asserts that nobody asks for what its state does not allow."""


class Loop:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, doing: Awaitable[Result]) -> Result:
        async def do() -> Result:
            return await doing

        return self._runner.run(do())

    def attempt(self, doing: Awaitable[Any]) -> None:
        try:
            self.run(doing)
        except FAILURES as failure:
            raise Refused(type(failure).__name__) from failure

    def close(self) -> None:
        self._runner.close()


async def new_producer(asked: Command) -> Any:
    producer = AIOKafkaProducer(
        bootstrap_servers=asked["servers"],
        transactional_id=asked["transactional_id"],
        transaction_timeout_ms=asked["timeout_ms"],
    )
    await producer.start()
    return producer


async def new_consumer(asked: Command, isolation: str, **more: object) -> Any:
    return AIOKafkaConsumer(
        bootstrap_servers=asked["servers"],
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
        **more,
    )


class AioProducer:
    def __init__(self, asked: Command) -> None:
        self._loop = Loop()
        self._producer: Any = None
        self._loop.attempt(self._start(asked))

    async def _start(self, asked: Command) -> None:
        self._producer = await new_producer(asked)

    def begin(self) -> None:
        self._loop.attempt(self._producer.begin_transaction())

    def send(self, partition: Partition, value: bytes) -> None:
        self._loop.attempt(
            self._producer.send_and_wait(partition.topic, value, partition=partition.number)
        )

    def offsets(self, group: str, offsets: list[Offset]) -> None:
        asked = {TopicPartition(each.topic, each.number): each.offset for each in offsets}
        self._loop.attempt(self._producer.send_offsets_to_transaction(asked, group))

    def commit(self) -> None:
        self._loop.attempt(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.attempt(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()


class AioReader:
    def __init__(self, asked: Command, told: Told) -> None:
        self._told = told
        self._loop = Loop()
        self._consumer: Any = None
        self._loop.run(self._start(asked))

    async def _start(self, asked: Command) -> None:
        self._consumer = await new_consumer(asked, asked["isolation"])
        await self._consumer.start()
        self._consumer.assign([TopicPartition(*each) for each in asked["partitions"]])
        await self._consumer.seek_to_beginning()

    def poll(self) -> None:
        for each in self._loop.run(found(self._consumer)):
            self._told.read(each)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.close()


class AioCopier(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, asked: Command, told: Told, pause: Pause) -> None:
        self._asked = asked
        self._told = told
        self._pause = pause
        self._producer: Any = None
        self._consumer: Any = None
        self._transaction = asyncio.Lock()
        """Partitions are not let go of before it is over."""
        self._loop = Loop()
        self._loop.run(self._start())

    async def _start(self) -> None:
        asked = self._asked
        self._producer = await new_producer(asked)
        self._consumer = await new_consumer(
            asked,
            "read_committed",
            group_id=asked["group"],
            session_timeout_ms=asked["session_ms"],
            heartbeat_interval_ms=asked["heartbeat_ms"],
        )
        self._consumer.subscribe(topics=[asked["source"]], listener=self)
        await self._consumer.start()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._told.assigned(Partition(each.topic, each.partition) for each in assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        async with self._transaction:
            pass

    def poll(self) -> None:
        self._loop.run(self._poll())

    async def _poll(self) -> None:
        async with self._transaction:
            records = await found(self._consumer)
            if not records:
                return
            try:
                await self._copy(records)
            except FAILURES as failure:
                self._told.aborted(failure)
                await self._recover()
            else:
                self._told.copied(records)

    async def _copy(self, records: list[Found]) -> None:
        await self._producer.begin_transaction()
        for each in records:
            await self._producer.send(
                self._asked["target"], each.value, partition=each.partition.number
            )
        await self._producer.flush()
        self._pause.here()
        offsets = {TopicPartition(*each.partition): each.offset + 1 for each in records}
        await self._producer.send_offsets_to_transaction(offsets, self._asked["group"])
        await self._producer.commit_transaction()

    async def _recover(self) -> None:
        """Nothing of the transaction is left, and what it has read is read again."""
        try:
            await self._producer.abort_transaction()
        except FAILURES:
            await self._producer.stop()
            self._producer = await new_producer(self._asked)
        for each in self._consumer.assignment():
            self._consumer.seek(each, await self._consumer.committed(each) or 0)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.run(self._producer.stop())
        self._loop.close()


async def found(consumer: Any) -> list[Found]:
    batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=RECORDS_MAX)
    return [
        Found(Partition(*where), record.offset, record.value)
        for where, records in batches.items()
        for record in records
    ]


class Aiokafka:
    def produce(self, asked: Command) -> AioProducer:
        return AioProducer(asked)

    def read(self, asked: Command, told: Told) -> AioReader:
        return AioReader(asked, told)

    def copy(self, asked: Command, told: Told, pause: Pause) -> AioCopier:
        return AioCopier(asked, told, pause)


if __name__ == "__main__":
    run(Aiokafka())
