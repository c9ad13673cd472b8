"""ShareFetch and ShareAcknowledge: records for one member alone, and what becomes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyk.errors import ErrorCode
from pyk.handlers.context import Context
from pyk.metadata.controller import set_group_config
from pyk.metadata.topics import TopicReference, delete_topics
from pyk.replication.partition import Isolation, Marker
from pyk.wire.prefixed import ControlType
from tests.handlers.brokers import NODE_ID, NOW_MS, change_partition, create, produce
from tests.handlers.queues import (
    GROUP,
    TOPIC,
    Worker,
    acquired,
    initialise,
    of_partition,
    offsets_sent,
    open_queue,
    records_of,
)
from tests.simulated_disk import SimulatedDisk

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
LOCKED = 30.0


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_queue() as broker:
        yield broker


async def configure(broker: Context, **values: str) -> None:
    configs = {key.replace("_", "."): value for key, value in values.items()}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, configs))


async def test_a_record_is_one_members_alone(broker: Context, autojump_clock: MockClock) -> None:
    produce(broker, TOPIC, 3)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 2, 1)]
    assert acquired(await bob.fetch()) == []


async def test_what_is_accepted_is_done(broker: Context, autojump_clock: MockClock) -> None:
    produce(broker, TOPIC, 3)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    answer = await ann.acknowledge((0, 2, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await trio.sleep(2 * LOCKED)
    assert acquired(await bob.fetch()) == []


async def test_what_is_released_is_for_somebody_else(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 3)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 0, ACCEPT), (1, 2, RELEASE))
    assert acquired(await bob.fetch()) == [(1, 2, 2)]


async def test_acknowledgements_come_with_a_fetch_too(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    produce(broker, TOPIC, 1)
    answer = await ann.fetch((0, 1, ACCEPT))
    assert of_partition(answer).acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == [(2, 2, 1)]


async def test_what_is_locked_for_too_long_is_for_somebody_else(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    began = trio.current_time()
    assert acquired(await bob.fetch(max_wait_ms=60_000)) == [(0, 0, 2)]
    assert trio.current_time() - began == LOCKED
    answer = await ann.acknowledge((0, 0, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE


async def test_a_lock_can_be_renewed(broker: Context, autojump_clock: MockClock) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    began = trio.current_time()
    await trio.sleep(LOCKED - 1)
    await ann.fetch((0, 0, RENEW), is_renewal=True)
    assert acquired(await bob.fetch(max_wait_ms=60_000)) == [(0, 0, 2)]
    assert trio.current_time() - began == 2 * LOCKED - 1


async def test_a_fetch_waits_for_records(broker: Context, autojump_clock: MockClock) -> None:
    ann = Worker(broker, "ann", TOPIC)
    async with trio.open_nursery() as nursery:

        async def write_later() -> None:
            await trio.sleep(3)
            produce(broker, TOPIC, 2)

        nursery.start_soon(write_later)
        began = trio.current_time()
        assert acquired(await ann.fetch(max_wait_ms=10_000)) == [(0, 1, 1)]
        assert trio.current_time() - began == 3


async def test_a_fetch_waits_for_so_many_bytes_and_then_takes_what_there_is(
    broker: Context,
    autojump_clock: MockClock,
) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    async with trio.open_nursery() as nursery:

        async def take_in_between() -> None:
            await trio.sleep(4)
            assert acquired(await bob.fetch()) == [(0, 0, 1)]
            produce(broker, TOPIC, 1)

        nursery.start_soon(take_in_between)
        began = trio.current_time()
        answer = await ann.fetch(max_wait_ms=10_000, min_bytes=10_000)
        assert acquired(answer) == [(1, 1, 1)]
        assert trio.current_time() - began == 10


async def test_whoever_says_goodbye_gives_back_what_it_has(
    broker: Context,
    autojump_clock: MockClock,
) -> None:
    produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 0, ACCEPT))
    await ann.leave()
    assert acquired(await bob.fetch()) == [(1, 1, 2)]


async def test_whoever_dies_gives_back_what_it_has_and_it_counts(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    ann.die()
    assert acquired(await bob.fetch()) == [(0, 1, 2)]


async def test_who_waits_hears_at_once_of_what_comes_back(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    async with trio.open_nursery() as nursery:

        async def die_later() -> None:
            await trio.sleep(2)
            ann.die()

        nursery.start_soon(die_later)
        began = trio.current_time()
        assert acquired(await bob.fetch(max_wait_ms=10_000)) == [(0, 0, 2)]
        assert trio.current_time() - began == 2


async def test_the_number_of_records_is_a_hint_or_a_limit(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 10)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    assert acquired(await ann.fetch(max_records=3, is_strict=True)) == [(0, 2, 1)]
    await ann.acknowledge((0, 2, RELEASE))
    produce(broker, TOPIC, 10)
    assert acquired(await bob.fetch(max_records=3, is_strict=True)) == [(0, 2, 2)]
    assert acquired(await bob.fetch(max_records=3)) == [(3, 9, 1)]


async def test_only_batches_with_acquired_records_are_sent(
    broker: Context, autojump_clock: MockClock
) -> None:
    for _ in range(5):
        produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    answer = await ann.fetch(max_records=3)
    assert (acquired(answer), offsets_sent(answer)) == ([(0, 3, 1)], [0, 1, 2, 3])
    await ann.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE), (2, 3, ACCEPT))
    answer = await bob.fetch(max_records=1, is_strict=True)
    assert (acquired(answer), offsets_sent(answer)) == ([(1, 1, 2)], [0, 1])


async def test_many_small_batches_are_found_in_one_answer(
    broker: Context, autojump_clock: MockClock
) -> None:
    for _ in range(400):
        produce(broker, TOPIC, 1)
    ann = Worker(broker, "ann", TOPIC)
    answer = await ann.fetch(max_records=350)
    assert sum(last - first + 1 for first, last, _ in acquired(answer)) == 350
    assert offsets_sent(answer) == list(range(350))


async def test_so_many_records_may_be_locked(broker: Context, autojump_clock: MockClock) -> None:
    await configure(broker, share_partition_max_record_locks="100")
    for _ in range(30):
        produce(broker, TOPIC, 10)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 99, 1)]
    assert acquired(await bob.fetch()) == []
    await ann.acknowledge((0, 49, ACCEPT))
    assert acquired(await bob.fetch()) == [(100, 149, 1)]


async def test_records_that_were_deleted_are_passed_over(
    broker: Context, autojump_clock: MockClock
) -> None:
    for _ in range(4):
        produce(broker, TOPIC, 5)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch(max_records=5)
    await ann.acknowledge((0, 4, RELEASE))
    broker.leader_of(TOPIC, 0).log.advance_start(12)
    assert acquired(await bob.fetch()) == [(12, 19, 1)]


async def test_a_broker_that_comes_back_knows_what_was_done(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 6)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 1, ACCEPT), (2, 2, REJECT), (4, 4, ACCEPT))
    for share in broker.shares:
        broker.shares.forget(share)
    bob = Worker(broker, "bob", TOPIC)
    assert acquired(await bob.fetch()) == [(3, 3, 2), (5, 5, 2)]


@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1H"])
async def test_a_group_begins_where_it_is_configured_to(
    broker: Context, autojump_clock: MockClock, reset: str
) -> None:
    await configure(broker, share_auto_offset_reset=reset)
    await create(broker, "other")
    produce(broker, "other", 4)
    await initialise(broker, "other", start_offset=-1)
    ann = Worker(broker, "ann", "other")
    expected = [] if reset == "latest" else [(0, 3, 1)]
    assert acquired(await ann.fetch()) == expected
    produce(broker, "other", 1)
    assert acquired(await ann.fetch()) == [(4, 4, 1)]


async def test_a_rejected_record_is_a_dead_letter(
    broker: Context, autojump_clock: MockClock
) -> None:
    await configure(broker, errors_deadletterqueue_topic_name="dead")
    produce(broker, TOPIC, 3)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 0, ACCEPT), (1, 1, REJECT), (2, 2, ACCEPT))
    (letter,) = records_of(broker.leader_of("dead", 0), 0, 100)
    (origin,) = records_of(broker.leader_of(TOPIC, 0), 1, 2)
    assert (letter.key, letter.value) == (origin.key, origin.value)
    assert dict(letter.headers) == {
        "__dlq.errors.topic": b"jobs",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": GROUP.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }


async def test_a_record_that_kills_its_readers_is_set_aside(
    broker: Context, autojump_clock: MockClock
) -> None:
    await configure(
        broker, errors_deadletterqueue_topic_name="dead", share_delivery_count_limit="2"
    )
    produce(broker, TOPIC, 1)
    for delivery in (1, 2):
        victim = Worker(broker, f"victim {delivery}", TOPIC)
        assert acquired(await victim.fetch()) == [(0, 0, delivery)]
        victim.die()
    bob = Worker(broker, "bob", TOPIC)
    assert acquired(await bob.fetch(max_wait_ms=1000)) == []
    (letter,) = records_of(broker.leader_of("dead", 0), 0, 100)
    assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"2"


async def test_without_a_place_for_them_dead_records_are_archived(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 1, REJECT))
    await trio.sleep(2 * LOCKED)
    assert acquired(await bob.fetch()) == []
    assert broker.leader_of(TOPIC, 0).visible_end(Isolation.READ_UNCOMMITTED) == 2


async def test_sessions_are_told_of_what_is_wrong_with_them(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Worker(broker, "ann", TOPIC)
    ann.epoch = 3
    assert (await ann.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    ann.epoch = 0
    await ann.fetch()
    ann.epoch = 7
    assert (await ann.fetch()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ann.epoch = 0
    assert (await ann.acknowledge()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await ann.fetch((0, 0, ACCEPT))).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "said", [(1, 0, ACCEPT), (0, 0, []), (0, 2, [1, 1]), (0, 0, [5]), (0, 0, [-1]), (0, 0, RENEW)]
)
async def test_what_makes_no_sense_is_refused(
    broker: Context, autojump_clock: MockClock, said: tuple[int, int, list[int]]
) -> None:
    produce(broker, TOPIC, 3)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    answer = await ann.acknowledge(said)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    answer = await ann.acknowledge((0, 2, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_topic_that_goes_away_is_told_to_who_waits(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Worker(broker, "ann", TOPIC)
    async with trio.open_nursery() as nursery:

        async def delete_later() -> None:
            await trio.sleep(1)
            reference = TopicReference(TOPIC)
            await broker.mirror.carry_out(lambda image: delete_topics(image, [reference]))

        nursery.start_soon(delete_later)
        answer = await ann.fetch(max_wait_ms=10_000)
    assert of_partition(answer).error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


async def test_locks_are_taken_back_when_the_disk_has_room_again(
    autojump_clock: MockClock,
) -> None:
    disk = SimulatedDisk()
    async with open_queue(disk) as broker:
        produce(broker, TOPIC, 1)
        ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
        await ann.fetch()
        disk.capacity = 0
        await trio.sleep(LOCKED + 5)
        assert acquired(await bob.fetch()) == []
        disk.capacity = None
        assert acquired(await bob.fetch(max_wait_ms=1000)) == [(0, 0, 2)]


async def test_what_cannot_be_kept_is_not_handed_out(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk()
    async with open_queue(disk) as broker:
        produce(broker, TOPIC, 2)
        ann = Worker(broker, "ann", TOPIC)
        disk.capacity = 0
        assert of_partition(await ann.fetch()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.capacity = None
        assert acquired(await ann.fetch()) == [(0, 1, 1)]
        disk.capacity = 0
        answer = await ann.acknowledge((0, 1, ACCEPT))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.capacity = None
        answer = await ann.acknowledge((0, 1, ACCEPT))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


async def test_who_begins_again_and_again_is_remembered_once(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 1)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 0, 1)]
    for _ in range(10):
        ann.epoch = 0
        await ann.fetch()
    assert len(ann.call.peer._when_gone) == 1
    ann.die()
    assert acquired(await bob.fetch()) == [(0, 0, 2)]


async def test_markers_alone_are_passed_over_and_what_is_behind_them_is_found(
    broker: Context, autojump_clock: MockClock
) -> None:
    led = broker.leader_of(TOPIC, 0)
    for number in range(300):
        marker = Marker(number, 0, ControlType.ABORT, 0, 0)
        led.end_transaction(marker, NOW_MS)
    produce(broker, TOPIC, 1)
    ann = Worker(broker, "ann", TOPIC)
    answer = await ann.fetch(max_bytes=1000, max_wait_ms=1000)
    assert acquired(answer) == [(300, 300, 1)]


async def test_in_a_new_leader_epoch_the_partition_begins_from_what_was_kept(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 3)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    await ann.acknowledge((0, 0, ACCEPT))
    for leader in (2, NODE_ID):
        await change_partition(broker, TOPIC, leader=leader)
    assert [(first, last) for first, last, _ in acquired(await bob.fetch())] == [(1, 2)]
