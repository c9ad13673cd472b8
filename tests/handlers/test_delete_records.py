"""DeleteRecords: a log starts later, never beyond what is committed."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import delete_records
from pyk.handlers.context import Context
from pyk.metadata.records import BrokerRecord
from pyk.turns import at_once
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.handlers.brokers import ask, configure, create, open_context, produce

HIGH_WATERMARK = -1


async def answered(
    broker: Context,
    *topics: tuple[str, dict[int, int]],
    version: int = 2,
    timeout_ms: int = 5000,
) -> list[tuple[str, int, int, int]]:
    """Name, partition, low watermark and code of each."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=number, offset=offset)
                    for number, offset in offsets.items()
                ],
            )
            for name, offsets in topics
        ],
        timeout_ms=timeout_ms,
    )
    response = await ask(delete_records.handle, delete_records.refuse, request, broker, version)
    return [
        (topic.name, each.partition_index, each.low_watermark, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ]


async def filled(broker: Context, *names: str) -> None:
    """Topics of two partitions, the first with ten records."""
    for name in names:
        await create(broker, name, 2)
        produce(broker, name, 10)


@pytest.mark.parametrize("version", range(3))
async def test_a_log_starts_at_the_offset(broker: Context, version: int) -> None:
    await filled(broker, "orders")
    assert await answered(broker, ("orders", {0: 3}), version=version) == [("orders", 0, 3, 0)]
    assert broker.leader_of("orders", 0).offsets.start == 3


async def test_a_start_never_goes_back(broker: Context) -> None:
    await filled(broker, "orders")
    await answered(broker, ("orders", {0: 3}))
    assert await answered(broker, ("orders", {0: 2})) == [("orders", 0, 3, 0)]


async def test_minus_one_is_the_high_watermark(broker: Context) -> None:
    await filled(broker, "orders")
    offsets = {0: HIGH_WATERMARK, 1: HIGH_WATERMARK}
    assert await answered(broker, ("orders", offsets)) == [
        ("orders", 0, 10, 0),
        ("orders", 1, 0, 0),
    ]


@pytest.mark.parametrize("offset", [11, -2])
async def test_what_is_not_committed_cannot_be_deleted(broker: Context, offset: int) -> None:
    await filled(broker, "orders")
    out_of_range = [("orders", 0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert await answered(broker, ("orders", {0: offset})) == out_of_range
    assert broker.leader_of("orders", 0).offsets.start == 0


async def test_what_is_not_there_is_said_to_be_unknown(broker: Context) -> None:
    await filled(broker, "orders")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await answered(broker, ("nope", {0: 1}), ("orders", {7: 0, -1: 0, 0: 4})) == [
        ("nope", 0, -1, unknown),
        ("orders", 7, -1, unknown),
        ("orders", -1, -1, unknown),
        ("orders", 0, 4, 0),
    ]


async def test_another_brokers_partition_is_not_touched() -> None:
    async with open_context(others={2: BrokerRecord(())}) as broker:
        await create(broker, "orders", 2)
        led = [state.leader for state in broker.topic_named("orders").partitions]
        assert sorted(led) == [1, 2]
        there = led.index(2)
        not_leader = [("orders", there, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert await answered(broker, ("orders", {there: 0})) == not_leader


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("compact,delete", ErrorCode.NONE),
        ("delete", ErrorCode.NONE),
        ("", ErrorCode.NONE),
    ],
)
async def test_a_log_that_is_only_compacted_keeps_its_records(
    broker: Context, policy: str, code: ErrorCode
) -> None:
    await filled(broker, "orders")
    await configure(broker, "orders", {"cleanup.policy": policy})
    broker.replicas.on_image(broker.image)
    at_once(broker.replicas.configure())
    [answer] = await answered(broker, ("orders", {0: 3}))
    assert answer == ("orders", 0, -1 if code else 3, code)


async def test_internal_topics_are_not_for_clients_to_cut(broker: Context) -> None:
    await create(broker, "__consumer_offsets")
    answers = await answered(broker, ("__consumer_offsets", {0: 0, 1: 0}))
    assert [code for *_, code in answers] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_of_a_partition_that_is_there_twice_the_last_offset_counts(broker: Context) -> None:
    await filled(broker, "orders")
    answers = await answered(broker, ("orders", {0: 6}), ("orders", {0: 5}))
    assert answers == [("orders", 0, 5, 0)]


async def test_a_single_replica_needs_no_time(broker: Context) -> None:
    await filled(broker, "orders")
    assert await answered(broker, ("orders", {0: 3}), timeout_ms=0) == [("orders", 0, 3, 0)]


async def test_a_topic_without_partitions_is_not_in_the_answer(broker: Context) -> None:
    await filled(broker, "orders")
    assert await answered(broker, ("orders", {})) == []
