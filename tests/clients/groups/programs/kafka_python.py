"""A member that is a consumer of kafka-python."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tests.clients.groups.programs.member import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    Join,
    Offset,
    Partition,
    Told,
    run,
)

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 finds old.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.structs import OffsetAndMetadata


POLL_SECONDS = 1.0
"""Its 3.0.12 forgets a join that new metadata made it begin when a poll ends before the join does,
and stays without partitions, silent, with any broker. So polls are long, and what is known of the
topics is known before the first join."""


class KafkaPython(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, join: Join, told: Told) -> None:
        self._told = told
        assert join.assignor == "range"
        self._consumer = KafkaConsumer(
            bootstrap_servers=join.servers,
            group_id=join.group,
            group_instance_id=join.instance,
            client_rack=join.rack or "",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=join.session_ms,
            heartbeat_interval_ms=join.heartbeat_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
            reconnect_backoff_max_ms=200,
        )
        for topic in join.topics:
            self._consumer.partitions_for_topic(topic)
        wanted = (
            {"topics": join.topics} if join.pattern is None else {"pattern": f"^{join.pattern}$"}
        )
        self._consumer.subscribe(**wanted, listener=self)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._told.assigned(plain(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        if offsets := self._told.uncommitted(plain(revoked)):
            await self._consumer.commit_async(asked(offsets))
            self._told.committed(offsets)
        self._told.revoked(plain(revoked))

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._told.lost(plain(lost))

    def poll(self) -> None:
        for where, records in self._consumer.poll(POLL_SECONDS * 1000).items():
            for record in records:
                self._told.read(Partition(*where), record.offset, record.value)

    def commit(self) -> None:
        if offsets := self._told.uncommitted():
            self._consumer.commit(asked(offsets))
            self._told.committed(offsets)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def asked(offsets: Iterable[Offset]) -> dict[Any, Any]:
    return {
        TopicPartition(each.topic, each.number): OffsetAndMetadata(each.offset, "", -1)
        for each in offsets
    }


def plain(found: Iterable[Any]) -> list[Partition]:
    return [Partition(each.topic, each.partition) for each in found]


if __name__ == "__main__":
    run(KafkaPython)
