"""Produce of batches whose records have to be read or compressed anew: elsewhere, in turns,
and in the order of the request. What is quick is appended at once, as ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar

import msgspec
import pytest
import trio
import trio.testing

from pyk.errors import ErrorCode
from pyk.handlers import list_offsets
from pyk.handlers import produce as produce_
from pyk.handlers.appends import GRACE
from pyk.handlers.call import InTurn
from pyk.handlers.context import INFLATED_AT_ONCE, SEARCHED_AT_ONCE, Context
from pyk.log.validation import READ_AT_ONCE_BYTES_MAX
from pyk.offload import at_once
from pyk.types import TopicPartition
from pyk.wire.batch import HEADER_BYTES, encode_batch
from pyk.wire.compression import Compression
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pyk.wire.records import Record, build_batch
from tests.handlers.brokers import NOW_MS, ask, call, create, open_context, sent
from tests.handlers.turns import counting_turns

COMPACTED, RECOMPRESSED, PLAIN = "compacted", "recompressed", "plain"
PARTITIONS = 8
VERSION = 11

T = TypeVar("T")


class Elsewhere:
    """Counts what is done elsewhere, and lets others go on first."""

    def __init__(self) -> None:
        self.count = 0
        self.before: list[Callable[[], Awaitable[None]]] = []

    async def __call__(self, run: Callable[[], T], /) -> T:
        self.count += 1
        for each in self.before:
            await each()
        return await at_once(run)


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
async def broker(elsewhere: Elsewhere) -> AsyncIterator[Context]:
    async with open_context() as context:
        await create(context, COMPACTED, PARTITIONS, {"cleanup.policy": "compact"})
        await create(context, RECOMPRESSED, PARTITIONS, {"compression.type": "gzip"})
        await create(context, PLAIN, PARTITIONS)
        for topic in (COMPACTED, RECOMPRESSED, PLAIN):
            for number in range(PARTITIONS):
                context.leader_of(topic, number)
        yield msgspec.structs.replace(context, offload=elsewhere)


def batch(count: int, sequence: int | None = None) -> bytes:
    """With a sequence it is a producer's."""
    values = [b"%d" % (offset * 7919) for offset in range(count)]
    return build_batch(
        [Record(offset, NOW_MS, b"key", value) for offset, value in enumerate(values)],
        compression=Compression.ZSTD,
        producer_id=-1 if sequence is None else 7,
        producer_epoch=-1 if sequence is None else 0,
        base_sequence=-1 if sequence is None else sequence,
    )


def request_for(topic: str, data: bytes, numbers: range, acks: int = -1) -> ProduceRequest:
    partitions = [PartitionProduceData(index=n, records=bytearray(data)) for n in numbers]
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )


def begin(broker: Context, request: ProduceRequest) -> object:
    return produce_.handle(sent(request, VERSION), call(VERSION), broker)


def outcomes(response: object) -> list[tuple[int, int]]:
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    return [(each.error_code, each.base_offset) for each in topic.partition_responses]


@pytest.mark.parametrize("topic", [COMPACTED, RECOMPRESSED])
async def test_a_large_batch_that_must_be_read_is_prepared_elsewhere(
    broker: Context, elsewhere: Elsewhere, topic: str
) -> None:
    response = begin(broker, request_for(topic, batch(1000), range(PARTITIONS)))
    assert isinstance(response, InTurn), "the requests behind it wait"
    async with counting_turns() as turns:
        found = await response
        assert turns.count >= PARTITIONS
    assert elsewhere.count == PARTITIONS
    assert outcomes(found) == [(ErrorCode.NONE, 0)] * PARTITIONS
    assert broker.leader_of(topic, 3).offsets.end == 1000


@pytest.mark.parametrize(
    ("topic", "codec"),
    [
        (COMPACTED, Compression.GZIP),
        (COMPACTED, Compression.LZ4),
        (COMPACTED, Compression.ZSTD),
        (RECOMPRESSED, Compression.ZSTD),
    ],
)
async def test_a_few_bytes_that_inflate_to_many_are_inflated_elsewhere(
    broker: Context, elsewhere: Elsewhere, topic: str, codec: Compression
) -> None:
    data = build_batch([Record(0, NOW_MS, b"key", bytes(500_000))], compression=codec)
    assert len(data) < READ_AT_ONCE_BYTES_MAX
    response = begin(broker, request_for(topic, data, range(PARTITIONS)))
    assert isinstance(response, InTurn)
    assert outcomes(await response) == [(ErrorCode.NONE, 0)] * PARTITIONS
    assert elsewhere.count == PARTITIONS


async def test_few_batches_are_inflated_at_the_same_time(
    broker: Context, elsewhere: Elsewhere, nursery: trio.Nursery
) -> None:
    """Each may take tens of megabytes, whatever its size on the wire."""
    started, most = 0, 0
    may_go_on = trio.Event()

    async def hold() -> None:
        nonlocal started, most
        started += 1
        most = max(most, started)
        await may_go_on.wait()
        started -= 1

    elsewhere.before.append(hold)
    responses = [
        begin(broker, request_for(COMPACTED, batch(1000), range(number, number + 1)))
        for number in range(PARTITIONS)
    ]
    found: list[object] = []

    async def collect(response: object) -> None:
        assert isawaitable(response)
        found.append(await response)

    for response in responses:
        nursery.start_soon(collect, response)
    await trio.testing.wait_all_tasks_blocked()
    assert most == INFLATED_AT_ONCE < PARTITIONS
    may_go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [outcomes(each) for each in found] == [[(ErrorCode.NONE, 0)]] * PARTITIONS
    assert most == INFLATED_AT_ONCE


async def test_searches_by_time_do_not_keep_batches_waiting(
    broker: Context, elsewhere: Elsewhere, nursery: trio.Nursery
) -> None:
    records = [Record(number, NOW_MS + number, b"key", bytes(500_000)) for number in range(2)]
    data = build_batch(records, compression=Compression.ZSTD)
    begun = begin(broker, request_for(COMPACTED, data, range(PARTITIONS)))
    assert isawaitable(begun)
    await begun
    may_end = trio.Event()
    elsewhere.before.append(may_end.wait)
    found: list[ListOffsetsResponse] = []

    async def search(number: int) -> None:
        wanted = ListOffsetsPartition(partition_index=number, timestamp=NOW_MS + 1)
        topic = ListOffsetsTopic(name=COMPACTED, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        handle, refuse = list_offsets.handle, list_offsets.refuse
        found.append(await ask(handle, refuse, request, broker, 7))

    before = elsewhere.count
    for number in range(PARTITIONS):
        nursery.start_soon(search, number)
    await trio.testing.wait_all_tasks_blocked()
    assert elsewhere.count - before == SEARCHED_AT_ONCE < PARTITIONS
    elsewhere.before.clear()
    begun = begin(broker, request_for(COMPACTED, batch(1000), range(1)))
    assert isawaitable(begun)
    assert outcomes(await begun) == [(ErrorCode.NONE, 2)]
    assert found == []
    may_end.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [each.topics[0].partitions[0].offset for each in found] == [1] * PARTITIONS


@pytest.mark.parametrize("topic", [COMPACTED, RECOMPRESSED])
async def test_many_small_blocks_of_snappy_are_what_they_are_elsewhere(
    broker: Context, topic: str
) -> None:
    """Fewer bytes would allow fewer blocks: what they are is not judged by that."""
    plain = build_batch([Record(0, NOW_MS, b"key", bytes(300))])
    blocks = [plain[at : at + 1] for at in range(HEADER_BYTES, len(plain))]
    framed = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1] * 2)
    for block in blocks:
        framed += (3).to_bytes(4, "big") + b"\x01\x00" + block
    data = encode_batch(
        framed,
        base_offset=0,
        partition_leader_epoch=-1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        last_offset_delta=0,
        attributes=Compression.SNAPPY,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        records_count=1,
    )
    assert len(data) < READ_AT_ONCE_BYTES_MAX
    response = begin(broker, request_for(topic, data, range(1)))
    found = await response if isawaitable(response) else response
    assert outcomes(found) == [(ErrorCode.NONE, 0)]


@pytest.mark.parametrize(
    ("topic", "count"), [(PLAIN, 10), (PLAIN, 2000), (COMPACTED, 10), (RECOMPRESSED, 10)]
)
async def test_what_is_quick_is_appended_at_once(
    broker: Context, elsewhere: Elsewhere, topic: str, count: int
) -> None:
    response = begin(broker, request_for(topic, batch(count), range(1)))
    assert not isawaitable(response)
    assert elsewhere.count == 0
    assert outcomes(response) == [(ErrorCode.NONE, 0)]


async def test_a_producers_batches_stay_in_order(broker: Context) -> None:
    for number, count in enumerate([1000, 5, 1000, 5]):
        sequence = sum([1000, 5, 1000, 5][:number])
        data = batch(count, sequence)
        response = begin(broker, request_for(COMPACTED, data, range(1)))
        found = await response if isawaitable(response) else response
        assert outcomes(found) == [(ErrorCode.NONE, sequence)]
    repeated = begin(broker, request_for(COMPACTED, data, range(1)))
    assert outcomes(repeated) == [(ErrorCode.NONE, 2005)]


async def test_a_batch_is_judged_where_it_is_appended(
    broker: Context, elsewhere: Elsewhere
) -> None:
    """Another connection has used the sequence meanwhile."""
    data = batch(1000, sequence=0)

    async def overtake() -> None:
        small = batch(3, sequence=0)
        assert not isawaitable(begin(broker, request_for(COMPACTED, small, range(1))))

    elsewhere.before.append(overtake)
    response = begin(broker, request_for(COMPACTED, data, range(1)))
    assert isawaitable(response)
    ((code, _),) = outcomes(await response)
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert broker.leader_of(COMPACTED, 0).offsets.end == 3


async def test_a_topic_that_goes_meanwhile_refuses_what_comes(
    broker: Context, elsewhere: Elsewhere
) -> None:
    from pyk.metadata.topics import TopicReference, delete_topics

    async def delete() -> None:
        references = [TopicReference(COMPACTED)]
        await broker.mirror.carry_out(lambda image: delete_topics(image, references))

    elsewhere.before.append(delete)
    response = begin(broker, request_for(COMPACTED, batch(1000), range(1)))
    assert isawaitable(response)
    assert outcomes(await response) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


async def test_a_batch_that_is_found_bad_elsewhere_is_refused_alone(broker: Context) -> None:
    records = [Record(offset, NOW_MS, None, b"value") for offset in range(1000)]
    request = request_for(COMPACTED, batch(1000), range(2))
    request.topic_data[0].partition_data[0] = PartitionProduceData(
        index=0, records=bytearray(build_batch(records))
    )
    response = begin(broker, request)
    assert isawaitable(response)
    assert outcomes(await response) == [(ErrorCode.INVALID_RECORD, -1), (ErrorCode.NONE, 0)]


async def test_nobody_is_answered_who_does_not_wait(broker: Context) -> None:
    response = begin(broker, request_for(COMPACTED, batch(1000), range(1), acks=0))
    assert isawaitable(response)
    assert await response is None
    assert broker.leader_of(COMPACTED, 0).offsets.end == 1000


async def test_a_log_is_made_before_it_is_written_to(broker: Context) -> None:
    await create(broker, "new", 2)
    response = begin(broker, request_for("new", batch(1), range(3)))
    assert isinstance(response, InTurn)
    assert outcomes(await response) == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert not isawaitable(begin(broker, request_for("new", batch(1), range(2))))
    assert TopicPartition("new", 1) in broker.directory.partitions


async def test_others_have_their_turn_while_thousands_of_batches_are_appended(
    broker: Context,
) -> None:
    await create(broker, "wide", 2000)
    topic = broker.topic_named("wide")
    await broker.replicas.ensure_logs((topic, number) for number in range(2000))
    for number in range(2000):
        broker.leader_of("wide", number)
        await trio.lowlevel.checkpoint()
    response = begin(broker, request_for("wide", batch(1), range(2000)))
    assert isinstance(response, InTurn), "a turn is not enough"
    async with counting_turns() as turns:
        found = await response
        assert turns.count > 0
    assert outcomes(found) == [(ErrorCode.NONE, 0)] * 2000


async def test_what_a_client_has_sent_is_appended_though_it_hangs_up(
    broker: Context, elsewhere: Elsewhere
) -> None:
    async def ask() -> None:
        response = begin(broker, request_for(COMPACTED, batch(1000), range(PARTITIONS), acks=0))
        assert isawaitable(response)
        await response

    async with trio.open_nursery() as nursery:

        async def hang_up() -> None:
            nursery.cancel_scope.cancel()

        elsewhere.before.append(hang_up)
        nursery.start_soon(ask)
    ends = {broker.leader_of(COMPACTED, number).offsets.end for number in range(PARTITIONS)}
    assert ends == {1000}


async def test_a_stop_does_not_wait_for_what_takes_for_ever(
    broker: Context, elsewhere: Elsewhere, autojump_clock: trio.testing.MockClock
) -> None:
    response = begin(broker, request_for(COMPACTED, batch(1000), range(1)))
    assert isawaitable(response)
    elsewhere.before.append(trio.sleep_forever)
    with trio.move_on_after(1):
        await response
    assert trio.current_time() == 1 + GRACE
