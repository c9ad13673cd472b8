"""Share groups, batches that cannot be read, and a disk that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import trio
from trio.testing import MockClock

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.context import Context
from pyk.metadata.controller import set_group_config
from pyk.replication.partition import Partition
from pyk.sharing.dead_letters import Burial
from pyk.sharing.delivery import Dead, Reason
from pyk.sharing.tally import Tally
from pyk.wire.batch import encode_batch
from pyk.wire.compression import Compression
from pyk.wire.records import Record
from tests.faults.failing_disk import FailingDisk, Fault, Operation
from tests.handlers.brokers import NOW_MS, create, open_context, produce
from tests.handlers.queues import (
    GROUP,
    LOCKS,
    TOPIC,
    Worker,
    acquired,
    initialise,
    of_partition,
    open_queue,
    records_of,
)
from tests.log.test_log import batch

ACCEPT, REJECT = [1], [3]
LOCKED = 30.0
DEAD = "dead"
HOUR_MS = 3_600_000


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
async def broker(disk: FailingDisk) -> AsyncIterator[Context]:
    async with open_queue(disk) as broker:
        yield broker


async def configure(broker: Context, **values: str) -> None:
    configs = {key.replace("_", "."): value for key, value in values.items()}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, configs))


def produce_unreadable(broker: Context, topic: str, records: int = 1) -> int:
    """A batch that is whole, and whose records do not inflate: anybody may write one."""
    data = encode_batch(
        b"this is not gzip, but the CRC is right",
        base_offset=0,
        partition_leader_epoch=-1,
        attributes=1,
        last_offset_delta=records - 1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=records,
    )
    led = broker.leader_of(topic, 0)
    return led.produce(bytearray(data), acks=1, now_ms=NOW_MS).added.base_offset


def failing(
    kind: str, part: str, times: int = 10**9, after: int = 0
) -> Callable[[Operation], Fault | None]:
    """The operations of a kind on files that have `part` in their path fail so often."""
    count = 0

    def plan(operation: Operation) -> Fault | None:
        nonlocal count
        if operation.kind != kind or part not in str(operation.path):
            return None
        count += 1
        return Fault.EIO if after < count <= after + times else None

    return plan


@pytest.mark.parametrize("flushes", [False, True], ids=["read at once", "read later"])
async def test_a_group_begins_at_a_batch_that_cannot_be_read(
    autojump_clock: MockClock, flushes: bool
) -> None:
    static = {**LOCKS, **({"log.flush.interval.messages": "1"} if flushes else {})}
    async with open_context(static) as broker:
        await configure(broker, share_auto_offset_reset="by_duration:PT1H")
        await create(broker, TOPIC)
        led = broker.leader_of(TOPIC, 0)
        led.produce(batch(NOW_MS - 2 * HOUR_MS), acks=1, now_ms=NOW_MS)
        produce_unreadable(broker, TOPIC)
        produce(broker, TOPIC, 1)
        await initialise(broker, TOPIC, start_offset=-1)
        ann = Worker(broker, "ann", TOPIC)
        assert acquired(await ann.fetch(max_wait_ms=1000)) == [(1, 2, 1)]
        await ann.acknowledge((1, 1, REJECT), (2, 2, ACCEPT))
        await trio.sleep(2 * LOCKED)
        assert acquired(await ann.fetch()) == []


async def test_a_dead_letter_that_cannot_be_read_takes_no_other_with_it(
    broker: Context, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 1)
    produce_unreadable(broker, TOPIC, records=2)
    produce(broker, TOPIC, 1)
    ann = Worker(broker, "ann", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 3, 1)]
    answer = await ann.acknowledge((0, 3, REJECT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    origins = [dict(each.headers)["__dlq.errors.offset"] for each in letters(broker)]
    assert origins == [b"0", b"3"]
    tally = tally_of(broker)
    assert (tally.dead_letters, tally.dead_letters_lost) == (2, 2)
    assert (
        "2 dead letters of the group workers cannot be written, from offset 1 of jobs-0"
        in caplog.text
    )


async def test_a_dead_letter_is_read_again_if_the_disk_fails_for_a_moment(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    disk.plan = failing("read", f"{TOPIC}-0", times=3)
    answer = await ann.acknowledge((0, 1, REJECT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert len(letters(broker)) == 2


async def test_a_dead_letter_is_written_again_if_the_disk_is_full_for_a_moment(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    disk.plan = failing("append", f"{DEAD}-0", times=2)
    await ann.acknowledge((0, 1, REJECT))
    assert [dict(each.headers)["__dlq.errors.offset"] for each in letters(broker)] == [b"0", b"1"]


async def test_dead_letters_wait_for_a_partition_that_is_not_led_for_a_moment(
    broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    produce(broker, TOPIC, 2)
    refused = 0

    async def find() -> Partition:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return broker.leader_of(DEAD, 0)

    dead = [Dead(0, 2, 1, Reason.REJECTED)]
    burial = Burial(broker.leader_of(TOPIC, 0), GROUP, dead, find, NOW_MS)
    await burial.run()
    assert (refused, burial.written, burial.lost) == (2, 2, 0)
    assert len(letters(broker)) == 2


async def test_a_dead_letter_that_the_disk_does_not_give_is_lost_and_the_group_goes_on(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    disk.plan = failing("read", f"{TOPIC}-0")
    answer = await ann.acknowledge((0, 1, REJECT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert tally_of(broker).dead_letters_lost == 2
    disk.plan = None
    produce(broker, TOPIC, 1)
    assert acquired(await ann.fetch()) == [(2, 2, 1)]


async def test_letters_of_one_batch_are_read_from_it_together(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 100)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    reads = 0

    def plan(operation: Operation) -> None:
        nonlocal reads
        reads += operation.kind == "read" and f"{TOPIC}-0" in str(operation.path)

    disk.plan = plan
    await ann.acknowledge((0, 99, [1, 3] * 50))
    assert len(letters(broker)) == 50
    assert reads < 10


async def test_a_large_batch_is_read_elsewhere_and_all_its_letters_are_written(
    broker: Context, autojump_clock: MockClock
) -> None:
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 1500)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch(max_records=1500)
    await ann.acknowledge((0, 1499, REJECT))
    assert len(letters(broker)) == 1500


async def test_what_is_rejected_in_the_topic_of_letters_does_not_come_back(
    broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    await initialise(broker, DEAD)
    produce(broker, TOPIC, 1)
    for topic in (TOPIC, DEAD):
        ann = Worker(broker, f"ann of {topic}", topic)
        assert acquired(await ann.fetch()) == [(0, 0, 1)]
        await ann.acknowledge((0, 0, REJECT))
        assert acquired(await ann.fetch()) == []
    assert len(letters(broker)) == 1


async def test_a_partition_that_cannot_be_read_is_refused_alone_and_read_again(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    for _ in range(2):
        produce(broker, TOPIC, 1)
    await create(broker, "other")
    await initialise(broker, "other")
    produce(broker, "other", 1)
    ann = Worker(broker, "ann", TOPIC)
    request = ann.request()
    request.topics.extend(Worker(broker, "ann", "other").request().topics)
    disk.plan = failing("read", f"{TOPIC}-0")
    answer = await ann.ask(request)
    codes = {each.topic_id: each.partitions[0].error_code for each in answer.responses}
    assert sorted(codes.values()) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert codes[ann.topic_id] == ErrorCode.KAFKA_STORAGE_ERROR
    disk.plan = None
    answer = await ann.fetch()
    assert [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        if topic.topic_id == ann.topic_id
        for each in topic.partitions[0].acquired_records
    ] == [(0, 1, 1)]


@pytest.mark.parametrize("read", range(2))
async def test_what_is_accepted_while_the_log_cannot_be_read_is_done_or_may_be_accepted_again(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock, read: int
) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    for _ in range(2):
        produce(broker, TOPIC, 1)
    disk.plan = failing("read", f"{TOPIC}-0", times=1, after=read)
    data = of_partition(await ann.fetch((0, 0, ACCEPT)))
    disk.plan = None
    if data.acknowledge_error_code:
        assert data.acknowledge_error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = await ann.acknowledge((0, 0, ACCEPT))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await trio.sleep(2 * LOCKED)
    deliveries = 1 if data.error_code else 2
    assert acquired(await bob.fetch()) == [(1, 2, deliveries)]


async def test_locks_that_cannot_be_taken_back_are_not_looked_at_without_pause(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD, share_delivery_count_limit="2")
    produce(broker, TOPIC, 1)
    for name in ("ann", "bob"):
        await Worker(broker, name, TOPIC).fetch(max_wait_ms=60_000)
    disk.capacity = 0
    attempts = 0

    def plan(operation: Operation) -> None:
        nonlocal attempts
        attempts += operation.kind == "append"

    disk.plan = plan
    await trio.sleep(LOCKED + 10)
    assert attempts < 1000
    assert tally_of(broker).dead_letters_lost == 0
    disk.capacity = None
    await trio.sleep(5)
    assert len(letters(broker)) == tally_of(broker).dead_letters == 1


async def test_a_letter_is_written_once_though_its_record_cannot_be_archived(
    disk: FailingDisk, broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, DEAD)
    await configure(broker, errors_deadletterqueue_topic_name=DEAD)
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    disk.plan = failing("append", "__share_group_state")
    for _ in range(3):
        answer = await ann.acknowledge((0, 1, REJECT))
        code = answer.responses[0].partitions[0].error_code
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.plan = None
    answer = await ann.acknowledge((0, 1, REJECT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert len(letters(broker)) == 2
    assert acquired(await ann.fetch()) == []


async def test_the_members_hear_which_log_cannot_be_read(
    broker: Context, disk: FailingDisk
) -> None:
    for _ in range(2):
        produce(broker, TOPIC, 1)
    disk.plan = failing("read", f"{TOPIC}-0")
    data = of_partition(await Worker(broker, "ann", TOPIC).fetch())
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert data.error_message is not None
    assert "jobs-0" in data.error_message


def letters(broker: Context) -> list[Record]:
    return records_of(broker.leader_of(DEAD, 0), 0, 10**9)


def tally_of(broker: Context) -> Tally:
    key = SharePartitionKey(GROUP, broker.topic_named(TOPIC).topic_id, 0)
    return broker.shares.tallies[key]


async def test_a_time_that_takes_long_to_find_is_looked_for_in_a_thread(
    autojump_clock: MockClock,
) -> None:
    async with open_context(LOCKS) as broker:
        await configure(broker, share_auto_offset_reset="by_duration:PT1H")
        await create(broker, TOPIC)
        late = [NOW_MS - 2 * HOUR_MS] * 30_000 + [NOW_MS]
        led = broker.leader_of(TOPIC, 0)
        led.produce(batch(*late, compression=Compression.GZIP), acks=1, now_ms=NOW_MS)
        await initialise(broker, TOPIC, start_offset=-1)
        ann = Worker(broker, "ann", TOPIC)
        assert acquired(await ann.fetch()) == [], "it is not known yet where the group begins"
        answer: list[tuple[int, int, int]] = []
        while not answer:
            answer = acquired(await ann.fetch())
            await trio.lowlevel.checkpoint()
        assert answer[0][0] == 30_000
