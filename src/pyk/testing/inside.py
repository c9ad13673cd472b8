"""What tests do with a broker that is in the same process, in the broker's own loop."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from pyk.disk import File
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call, Peer
from pyk.handlers.context import Context
from pyk.replication.partition import ACKS_ALL, Isolation, Partition, Waiter
from pyk.testing.record import Record, Value, from_batches, placed, to_batch, to_record
from pyk.wire.messages.fetch import AbortedTransaction

READ_BYTES = 16 * 1024**2
CALL = Call(
    7,
    "pyk.testing",
    Peer(
        connection_id="inside",
        listener="PLAINTEXT",
        host="127.0.0.1",
        port=0,
        reached_host="127.0.0.1",
        reached_port=0,
    ),
)


async def create_topic(
    broker: Context, name: str, partitions: int, configs: Mapping[str, str]
) -> None:
    """Raise KafkaError."""
    # Here, since it takes much to import, and a test may leave topics to its clients.
    from pyk.handlers import create_topics
    from pyk.testing.wire import creation

    response = await create_topics.handle(creation(name, partitions, configs), CALL, broker)
    (made,) = response.topics
    if made.error_code:
        raise KafkaError(ErrorCode(made.error_code), made.error_message)


async def produce(
    broker: Context, topic: str, values: tuple[Value | Record, ...], partition: int | None
) -> list[Record]:
    """Append all, those for one partition that follow each other in one batch. A topic that is not
    there is made. Raise KafkaError."""
    if topic not in broker.image.topics:
        await create_topic(broker, topic, 1, {})
    written = []
    for number, records in groupby(
        (to_record(value, topic, partition) for value in values), lambda each: each.partition
    ):
        batch, now_ms = list(records), broker.now_ms()
        led = broker.leader_of(topic, number)
        produced = led.produce(to_batch(batch, now_ms), acks=ACKS_ALL, now_ms=now_ms)
        await led.wait_committed(
            produced.end_offset, produced.leader_epoch, is_flush_due=produced.is_flush_due
        )
        written += placed(batch, produced.added.base_offset, now_ms)
    return written


async def records(
    broker: Context,
    topic: str,
    count: int | None,
    partition: int | None,
    start: int,
    isolation: Isolation,
) -> list[Record]:
    """Everything there is from an offset on, by partition and offset. With a count, wait until
    there is as much of it. Raise KafkaError."""
    numbers = range(len(broker.topic_named(topic).partitions)) if partition is None else [partition]
    led = [broker.leader_of(topic, number) for number in numbers]
    waiter = Waiter()
    for each in led:
        each.add_waiter(waiter)
    try:
        while True:
            found = [record for each in led for record in _read(each, start, isolation)]
            if count is None or len(found) >= count:
                return found[:count]
            await waiter.wait()
    finally:
        for each in led:
            each.remove_waiter(waiter)


def _read(partition: Partition, start: int, isolation: Isolation) -> list[Record]:
    found: list[Record] = []
    offset = max(start, partition.offsets.start)
    while offset < partition.visible_end(isolation):
        piece, aborted = partition.read(offset, READ_BYTES, isolation)
        if piece is None:
            break
        file: File = piece.records.file  # type: ignore[assignment]
        data = file.read(piece.records.position, piece.records.size)
        named = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in aborted or ()
        ]
        found += from_batches(data, *partition.partition, offset, named).records
        offset = piece.end_offset
    return found


def isolation_of(*, committed: bool) -> Isolation:
    return Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
