"""What clients hear when another broker is elected, or this one again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio
import trio.testing

from pyk.coordinator.internal_topics import TRANSACTION_TOPIC
from pyk.errors import ErrorCode
from pyk.handlers import delete_topics, fetch, write_txn_markers
from pyk.handlers import produce as produce_
from pyk.handlers.context import Context
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.coordinator import transactional_client as transactions
from tests.handlers.brokers import (
    HERE,
    NODE_ID,
    NOW_MS,
    ask,
    change_partition,
    configure,
    create,
    open_context,
    produce,
)
from tests.handlers.queues import TOPIC as JOBS
from tests.handlers.queues import Worker, acquired, of_partition, open_queue
from tests.log.test_log import batch
from tests.waiting import waiting

TOPIC = "orders"
OTHER = 2

Request = Callable[[Context], Awaitable[int]]


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    """Leads a partition, with another broker in the ISR."""
    async with open_context(others={OTHER: HERE}) as broker:
        await create(broker, TOPIC, replicas=2)
        await change_partition(broker, TOPIC, leader=NODE_ID, isr=(NODE_ID, OTHER))
        yield broker


async def produced(broker: Context, acks: int = -1) -> int:
    data = PartitionProduceData(index=0, records=bytes(batch(NOW_MS)))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic])
    response = await ask(produce_.handle, produce_.refuse, request, broker, 11)
    assert response is not None
    return response.responses[0].partition_responses[0].error_code


async def fetched(broker: Context) -> int:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = FetchTopic(topic=TOPIC, partitions=[wanted])
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[topic])
    response = await ask(fetch.handle, fetch.refuse, request, broker, 12)
    return response.responses[0].partitions[0].error_code


async def marked(broker: Context) -> int:
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await ask(
        write_txn_markers.handle, write_txn_markers.refuse, request, broker, version=1
    )
    return response.markers[0].topics[0].partitions[0].error_code


REQUESTS = pytest.mark.parametrize("request_", [produced, fetched, marked])


@REQUESTS
async def test_who_waits_hears_that_another_broker_leads(
    broker: Context, request_: Request
) -> None:
    async with waiting(lambda: request_(broker)) as codes:
        assert not codes
        await change_partition(broker, TOPIC, leader=OTHER)
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@REQUESTS
async def test_who_waits_hears_that_the_topic_is_gone(broker: Context, request_: Request) -> None:
    async with waiting(lambda: request_(broker)) as codes:
        doomed = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
        await ask(delete_topics.handle, delete_topics.refuse, doomed, broker, 5)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_what_was_not_committed_in_the_last_epoch_is_no_success_in_the_next(
    broker: Context,
) -> None:
    async with waiting(lambda: produced(broker)) as codes:
        await change_partition(broker, TOPIC, leader=OTHER, isr=(OTHER,))
        await change_partition(broker, TOPIC, leader=NODE_ID, isr=(NODE_ID,))
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert produce(broker, TOPIC, 1) == 1
    led = broker.leader_of(TOPIC, 0)
    assert led.leader_epoch == broker.image.topics[TOPIC].partitions[0].leader_epoch
    assert led.log.high_watermark == 2


async def test_a_smaller_isr_lets_the_producer_hear_of_success(broker: Context) -> None:
    async with waiting(lambda: produced(broker)) as codes:
        assert not codes
        await change_partition(broker, TOPIC, isr=(NODE_ID,))
    assert codes == [ErrorCode.NONE]


async def test_with_acks_1_the_disk_is_waited_for_and_no_other_replica(broker: Context) -> None:
    await configure(broker, TOPIC, {"flush.messages": "1"})
    assert await produced(broker, acks=1) == ErrorCode.NONE
    log = broker.leader_of(TOPIC, 0).log
    assert (log.flushed_end, log.high_watermark) == (1, 0)


async def test_who_waits_with_the_share_of_the_last_epoch_leaves_the_timer_of_the_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_queue() as broker:
        ann, bob, eve, joe = (Worker(broker, name, JOBS) for name in ("ann", "bob", "eve", "joe"))
        await ann.fetch()
        codes: list[int] = []

        async def wait() -> None:
            codes.append(of_partition(await bob.fetch(max_wait_ms=100_000)).error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await change_partition(broker, JOBS, leader=NODE_ID)
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        await eve.fetch()
        produce(broker, JOBS, 1)
        assert acquired(await eve.fetch()) == [(0, 0, 1)]
        assert acquired(await joe.fetch(max_wait_ms=60_000)) == [(0, 0, 2)]


async def test_a_broker_that_does_not_lead_hands_out_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_queue() as broker:
        bob = Worker(broker, "bob", JOBS)
        await bob.fetch()
        produce(broker, JOBS, 1)
        codes: list[int] = []

        async def wait() -> None:
            found = of_partition(await bob.fetch(max_wait_ms=60_000, min_bytes=10_000))
            assert not found.acquired_records
            codes.append(found.error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await change_partition(broker, JOBS, leader=OTHER)
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_transaction_is_complete_when_its_marker_is_committed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also if its coordinator is elected anew when the marker is on the log and no more."""
    static = {"transaction.state.log.num.partitions": "1", "transaction.state.log.min.isr": "1"}
    async with open_context(static, others={OTHER: HERE}) as broker:
        await create(broker, transactions.TOPIC, replicas=2)
        await change_partition(broker, transactions.TOPIC, leader=NODE_ID, isr=(NODE_ID,))
        await transactions.find_coordinators(broker)
        await change_partition(broker, TRANSACTION_TOPIC, leader=NODE_ID, isr=(NODE_ID,))
        client = transactions.Client(broker, transactions.V2)
        await client.init()
        await client.write(b"one")
        await change_partition(broker, transactions.TOPIC, isr=(NODE_ID, OTHER))
        await client.end(commit=True)
        await transactions.settled(broker)
        log = broker.leader_of(transactions.TOPIC, 0).log
        assert log.high_watermark < log.end_offset
        for _ in range(2):
            assert transactions.status(broker) == "PrepareCommit"
            await change_partition(broker, TRANSACTION_TOPIC, leader=NODE_ID)
            await transactions.settled(broker)
        await change_partition(broker, transactions.TOPIC, isr=(NODE_ID,))
        await trio.sleep(60)
        assert transactions.status(broker) == "CompleteCommit"
        assert log.last_stable_offset == log.end_offset
