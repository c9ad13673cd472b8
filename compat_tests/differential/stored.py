"""What a broker has written of groups, transactions and share partitions, as consumers read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat_tests.differential.sides import PATIENCE, Side
from pyk.coordinator import group_coordinator, share_coordinator, transaction_coordinator
from pyk.coordinator.internal_topics import (
    GROUP_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    partition_for,
)
from pyk.coordinator.journal import RecordTypes
from pyk.wire.prefixed import decode_key, decode_value

PARTITIONS = 50


def stored(side: Side, group_id: str) -> list[tuple[Any, ...]]:
    """What the topic of groups holds of a group: keys, values and their versions."""
    found = []
    for key, value in _records(side, GROUP_TOPIC, group_id, group_coordinator.RECORD_TYPES):
        if group_id in (getattr(key, "group", ""), getattr(key, "group_id", "")):
            found.append((key, *value))
    return found


def stored_transaction(side: Side, transactional_id: str) -> list[tuple[Any, ...]]:
    """What the topic of transactions holds of an id: values and their versions."""
    types = transaction_coordinator.RECORD_TYPES
    records = _records(side, TRANSACTION_TOPIC, transactional_id, types)
    return [value for key, value in records if key.transactional_id == transactional_id]


def stored_state(side: Side, key: share_coordinator.SharePartitionKey) -> list[tuple[Any, ...]]:
    """What the topic of share partitions' state holds of one: kinds, values and their versions."""
    found = []
    for each, value in _records(side, SHARE_TOPIC, key.text, share_coordinator.RECORD_TYPES):
        if (each.group_id, each.topic_id, each.partition) == key:
            found.append((type(each).__name__, *value))
    return found


def bounds(side: Side, topic: str, key: str) -> tuple[int, int]:
    """Where the log that has the key starts and ends."""
    consumer = _consumer(side)
    partition = TopicPartition(topic, partition_for(key, PARTITIONS))
    start, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE)
    consumer.close()
    return start, end


def _records(
    side: Side, topic: str, hashed: str, types: RecordTypes
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    consumer = _consumer(side)
    number = partition_for(hashed, PARTITIONS)
    start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE)
    consumer.assign([TopicPartition(topic, number, start)])
    while start < end:
        message: Any = consumer.poll(PATIENCE)
        assert message is not None
        assert message.error() is None
        start = message.offset() + 1
        key = decode_key(types.keys, message.key())
        yield key, _value(side, types.values[type(key)], message.value())
    consumer.close()


def _consumer(side: Side) -> Consumer:
    options = {"group.id": "reader", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": side.address, **options})


def _value(side: Side, of: type, data: bytes | None) -> tuple[Any, ...]:
    if data is None:
        return ()
    value: Any = decode_value(of, data)
    return int.from_bytes(data[:2], "big"), _without_times(side.plain(value))


def _without_times(value: dict[str, Any]) -> dict[str, Any]:
    return {n: "a time" if "timestamp" in n and v > 0 else v for n, v in value.items()}
