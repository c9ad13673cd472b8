"""A member that is a consumer of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.clients.groups.programs.member import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    POLL_SECONDS,
    Join,
    Offset,
    Partition,
    Told,
    run,
)


class Aiokafka(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, join: Join, told: Told) -> None:
        assert join.assignor == "range"
        self._told = told
        self._runner = asyncio.Runner()
        self._consumer: Any = None
        self._run(self._joined(join))

    async def _joined(self, join: Join) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=join.servers,
            group_id=join.group,
            group_instance_id=join.instance,
            client_rack=join.rack,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=join.session_ms,
            heartbeat_interval_ms=join.heartbeat_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        wanted = (
            {"topics": join.topics} if join.pattern is None else {"pattern": f"^{join.pattern}$"}
        )
        self._consumer.subscribe(**wanted, listener=self)
        await self._consumer.start()

    def _run(self, doing: Awaitable[None]) -> None:
        async def do() -> None:
            await doing

        self._runner.run(do())

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._told.assigned(plain(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        try:
            await self._commit(self._told.uncommitted(plain(revoked)))
        except Exception as error:
            # It has let go of them before it says so, where its subscription has changed.
            self._told.failed(error)
        self._told.revoked(plain(revoked))

    def poll(self) -> None:
        self._run(self._poll())

    async def _poll(self) -> None:
        found = await self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        for where, records in found.items():
            for record in records:
                self._told.read(Partition(*where), record.offset, record.value)

    def commit(self) -> None:
        self._run(self._commit(self._told.uncommitted()))

    async def _commit(self, offsets: list[Offset]) -> None:
        if offsets:
            asked = {TopicPartition(each.topic, each.number): each.offset for each in offsets}
            await self._consumer.commit(asked)
            self._told.committed(offsets)

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._runner.close()


def plain(found: Iterable[Any]) -> list[Partition]:
    return [Partition(each.topic, each.partition) for each in found]


if __name__ == "__main__":
    run(Aiokafka)
