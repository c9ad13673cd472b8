"""DescribeProducers: all partitions may be asked for at once, and most have nothing to tell."""

from __future__ import annotations

from inspect import isawaitable

from pyk.errors import ErrorCode
from pyk.handlers import describe_producers
from pyk.handlers.context import Context
from pyk.metadata.records import BrokerRecord
from pyk.types import TopicPartition
from pyk.wire.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from pyk.wire.records import Record, build_batch
from tests.handlers.brokers import NOW_MS, ask, call, create, open_context
from tests.handlers.turns import counting_turns

COUNT = 200
MANY = 9_000
"""Named five times, they take more than a turn on any machine."""


async def described(broker: Context, *numbers: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="orders", partition_indexes=list(numbers))]
    )
    handle, refuse = describe_producers.handle, describe_producers.refuse
    response = await ask(handle, refuse, request, broker, version=0)
    (topic,) = response.topics
    return topic.partitions


def write(broker: Context, number: int) -> None:
    batch = build_batch(
        [Record(0, NOW_MS, None, b"value")], producer_id=7, producer_epoch=0, base_sequence=0
    )
    broker.leader_of("orders", number).produce(batch, acks=1, now_ms=NOW_MS)


async def test_a_partition_that_was_never_used_has_no_producers_and_gets_no_log(
    broker: Context,
) -> None:
    await create(broker, "orders", COUNT)
    write(broker, 1)
    first, second, *others = await described(broker, *range(COUNT))
    assert [producer.producer_id for producer in second.active_producers] == [7]
    for each in (first, *others):
        assert (each.error_code, each.active_producers) == (ErrorCode.NONE, [])
    assert broker.directory.partitions == {TopicPartition("orders", 1)}


async def test_a_partition_that_is_not_there_or_led_elsewhere_is_refused() -> None:
    async with open_context(others={2: BrokerRecord(())}) as broker:
        await create(broker, "orders", 2)
        leaders = [each.leader for each in broker.image.topics["orders"].partitions]
        assert sorted(leaders) == [1, 2]
        elsewhere = leaders.index(2)
        codes = [each.error_code for each in await described(broker, elsewhere, 2)]
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_others_have_their_turn_while_many_are_described(broker: Context) -> None:
    await create(broker, "orders", MANY)
    async with counting_turns() as turns:
        numbers = list(range(MANY)) * 5
        request = DescribeProducersRequest(
            topics=[TopicRequest(name="orders", partition_indexes=numbers)]
        )
        response = describe_producers.handle(request, call(0), broker)
        assert isawaitable(response), "a turn is not enough"
        await response
        assert turns.count > 0
