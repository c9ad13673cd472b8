"""A partition that is led here: what is appended, shown, and waited for."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.index import TimedOffset
from pyk.log.log import Log
from pyk.log.producers import Origin
from pyk.replication.flushing import Flusher
from pyk.replication.leader import Leader
from pyk.replication.partition import ACKS_ALL, Isolation, Partition, Waiter
from pyk.types import TopicPartition, Uuid
from pyk.wire.prefixed import ControlType
from tests.log.test_log import ANN, batch, marker, records_of
from tests.simulated_disk import ROOT, SimulatedDisk
from tests.waiting import waiting

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
NOW = 1_000_000
TOPIC_ID = Uuid(b"the topic's uuid")


def led(in_sync: frozenset[int] = frozenset({1}), epoch: int = 4) -> Partition:
    log = Log.open(SimulatedDisk(), ROOT / "topic-0", LogConfig())
    leader = Leader(
        node_id=1,
        leader_epoch=epoch,
        log_end=log.end_offset,
        in_sync=in_sync,
    )
    return Partition(TopicPartition("topic", 0), TOPIC_ID, log, leader, Flusher())


@pytest.fixture
def partition() -> Partition:
    return led()


def produce(partition: Partition, data: bytearray, acks: int = ACKS_ALL) -> int:
    """The offset of the first record."""
    origin = Origin.CLIENT
    if data[22] & 0x20:
        origin = Origin.COORDINATOR
    produced = partition.produce(data, acks=acks, now_ms=NOW, origin=origin)
    return produced.added.base_offset


def test_what_is_produced_is_shown_at_once(partition: Partition) -> None:
    assert produce(partition, batch(7, 8)) == 0
    assert produce(partition, batch(9)) == 2
    fetched = partition.fetch(0, 10_000, UNCOMMITTED)
    assert [record.timestamp for record in records_of(fetched.piece)] == [7, 8, 9]
    assert fetched.aborted is None
    assert fetched.offsets == (0, 3, 3, 3)
    assert partition.epoch_for(2) == 4


def test_readers_of_committed_records_stop_at_what_is_undecided(partition: Partition) -> None:
    produce(partition, batch(1))
    produce(partition, batch(2, producer_id=ANN, sequence=0, is_transactional=True))
    assert partition.fetch(0, 10_000, COMMITTED).offsets.last_stable == 1
    assert partition.fetch(1, 10_000, COMMITTED).piece is None
    produce(partition, marker(ANN, ControlType.ABORT))
    fetched = partition.fetch(0, 10_000, COMMITTED)
    assert fetched.aborted is not None
    assert [(t.producer_id, t.first_offset) for t in fetched.aborted] == [(ANN, 1)]


def test_too_few_replicas_in_sync_refuse_who_wants_all_of_them(partition: Partition) -> None:
    partition.configure(TopicConfig(min_insync_replicas=2))
    with pytest.raises(KafkaError) as refused:
        partition.produce(batch(1), acks=ACKS_ALL, now_ms=NOW)
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.produce(batch(1), acks=1, now_ms=NOW).added.base_offset == 0


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, None),
        (-1, None),
    ],
)
def test_a_client_with_another_view_of_who_leads_is_told_so(
    partition: Partition, epoch: int, code: ErrorCode | None
) -> None:
    if code is None:
        partition.check_leader_epoch(epoch)
        return
    with pytest.raises(KafkaError) as refused:
        partition.check_leader_epoch(epoch)
    assert refused.value.code == code


def test_times_are_found_up_to_what_the_reader_may_see(partition: Partition) -> None:
    produce(partition, batch(100))
    produce(partition, batch(300, producer_id=ANN, sequence=0, is_transactional=True))
    assert partition.find_timestamp(200, UNCOMMITTED) == TimedOffset(300, 1)
    assert partition.find_timestamp(200, COMMITTED) is None
    assert partition.find_newest(UNCOMMITTED) == TimedOffset(300, 1)
    assert partition.find_timestamp(50, COMMITTED) == TimedOffset(100, 0)


def test_an_epoch_ends_where_the_next_one_began(partition: Partition) -> None:
    produce(partition, batch(1))
    assert partition.end_of_epoch(4) == (4, 1)
    assert partition.end_of_epoch(5) == (-1, -1)


async def test_what_only_one_of_two_has_is_waited_for() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1, 2))
    assert partition.fetch(0, 10_000, UNCOMMITTED).piece is None
    done: list[str] = []

    async def wait() -> None:
        await partition.wait_committed(2, 4, is_flush_due=False)
        done.append("committed")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not done
        partition._leader.follower_ends[2] = 2
        produce(partition, batch(3))
    assert done == ["committed"]


async def test_whoever_waits_is_woken_by_every_partition_it_waits_for() -> None:
    first, second = led(), led()
    waiter = Waiter()
    for partition in (first, second):
        partition.add_waiter(waiter)
    woken: list[int] = []

    async def wait() -> None:
        for number in range(2):
            await waiter.wait()
            woken.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        produce(second, batch(1))
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [0]
        produce(first, batch(1))
    assert woken == [0, 1]


async def test_the_answer_waits_for_the_disk_where_the_topic_asks_for_it() -> None:
    partition = led()
    partition.log.config = LogConfig(flush_messages=1)
    produced = partition.produce(batch(1), acks=1, now_ms=NOW)
    assert produced.is_flush_due
    assert partition.log.flushed_end == 0
    await partition.wait_committed(1, 4, is_flush_due=produced.is_flush_due)
    assert partition.log.flushed_end == 1


# Roles and leader epochs

NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")


def elected_again(partition: Partition, epoch: int, in_sync: frozenset[int]) -> None:
    log_end = partition.log.end_offset
    partition.lead(Leader(node_id=1, leader_epoch=epoch, log_end=log_end, in_sync=in_sync))


async def refusal_of(partition: Partition, end_offset: int, epoch: int) -> ErrorCode | None:
    """What somebody hears who waits for a commit."""
    try:
        await partition.wait_committed(end_offset, epoch, is_flush_due=False)
    except KafkaError as refusal:
        return refusal.code
    return None


async def test_a_wait_for_a_commit_ends_when_the_role_is_lost() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1))
    async with waiting(lambda: refusal_of(partition, 1, 4), times=2) as heard:
        partition.resign(NOT_LEADER)
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert await refusal_of(partition, 1, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_the_commit_of_another_leaders_batch_at_the_same_offset_is_no_commit() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1))
    async with waiting(lambda: refusal_of(partition, 1, 4)) as heard:
        # Another broker led in epoch 5, and this one has taken over its log. All in one step: the
        # wait sees no moment in which nobody leads.
        partition.resign(NOT_LEADER)
        partition.log.truncate(0)
        partition.log.append(batch(2), leader_epoch=5, now_ms=NOW)
        elected_again(partition, epoch=6, in_sync=frozenset({1}))
        assert partition.log.high_watermark == 1
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert await refusal_of(partition, 1, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.is_committed(1, 4)
    assert await refusal_of(partition, 1, 6) is None


async def test_a_wait_ends_with_its_epoch_also_if_the_next_one_follows_at_once() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1))
    async with waiting(lambda: refusal_of(partition, 1, 4)) as heard:
        elected_again(partition, epoch=6, in_sync=frozenset({1, 2}))
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_what_was_committed_before_the_role_was_lost_is_told() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1))
    async with waiting(lambda: refusal_of(partition, 1, 4)) as heard:
        partition._leader.follower_ends[2] = 1
        produce(partition, batch(2))
        partition.resign(NOT_LEADER)
    assert heard == [None]


def test_nothing_is_appended_without_the_role(partition: Partition) -> None:
    partition.resign(NOT_LEADER)
    with pytest.raises(KafkaError) as refused:
        produce(partition, batch(1))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.end_offset == 0
    elected_again(partition, epoch=5, in_sync=frozenset({1}))
    assert produce(partition, batch(1)) == 0
    assert partition.log.epochs.epoch_for(0) == 5


async def test_a_wait_that_was_cancelled_leaves_nothing_behind() -> None:
    partition = led(in_sync=frozenset({1, 2}))
    produce(partition, batch(1))
    with trio.move_on_after(0):
        await refusal_of(partition, 1, 4)
    assert not partition._watermark._waits
