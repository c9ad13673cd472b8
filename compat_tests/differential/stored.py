"""What a broker has written about a group, read back as any consumer reads a topic."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat_tests.differential.sides import PATIENCE, Side
from pyk.coordinator.group_coordinator import RECORD_TYPES
from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.wire.prefixed import decode_key, decode_value


def stored(side: Side, group_id: str) -> list[tuple[Any, ...]]:
    """What the topic of groups holds of a group: keys, values and their versions."""
    number = partition_for(group_id, 50)
    options = {"group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": side.address, **options})
    partition = TopicPartition(GROUP_TOPIC, number, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE)
    consumer.assign([partition])
    found, position = [], 0
    while position < end:
        message: Any = consumer.poll(PATIENCE)
        assert message is not None
        assert message.error() is None
        position = message.offset() + 1
        key = decode_key(RECORD_TYPES.keys, message.key())
        if group_id in (getattr(key, "group", ""), getattr(key, "group_id", "")):
            found.append((key, *_value(side, type(key), message.value())))
    consumer.close()
    return found


def _value(side: Side, key: type, data: bytes | None) -> tuple[Any, ...]:
    if data is None:
        return ()
    value: Any = decode_value(RECORD_TYPES.values[key], data)
    return int.from_bytes(data[:2], "big"), _without_times(side.plain(value))


def _without_times(value: dict[str, Any]) -> dict[str, Any]:
    return {n: "a time" if "timestamp" in n and v > 0 else v for n, v in value.items()}
