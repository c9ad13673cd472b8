"""Requests about many topics or resources: decided elsewhere, and answered in turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from inspect import isawaitable
from typing import Any, TypeVar

import msgspec
import pytest
import trio

from pyk.errors import ErrorCode
from pyk.handlers import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    incremental_alter_configs,
    metadata,
    offset_for_leader_epoch,
)
from pyk.handlers.context import DECIDED_AT_ONCE_MAX, Context
from pyk.metadata.controller import set_broker_defaults
from pyk.offload import at_once
from pyk.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyk.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from pyk.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.metadata import MetadataRequest
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.handlers.brokers import NODE_ID, ask, call, create, open_context, produce
from tests.handlers.turns import counting_turns
from tests.simulated_disk import SimulatedDisk

MANY = DECIDED_AT_ONCE_MAX + 1
WIDE = 9_000
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32

T = TypeVar("T")


class Elsewhere:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, run: Callable[[], T], /) -> T:
        self.count += 1
        return await at_once(run)


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
async def broker(elsewhere: Elsewhere) -> AsyncIterator[Context]:
    async with open_context() as context:
        yield msgspec.structs.replace(context, offload=elsewhere)


def new_topics(count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        timeout_ms=1000,
        topics=[
            CreatableTopic(
                name=f"t{number}",
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for number in range(count)
        ],
    )


def altered(count: int) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resources = [
        AlterConfigsResource(resource_type=TOPIC, resource_name=f"t{number}", configs=[config])
        for number in range(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


@pytest.mark.parametrize(("count", "is_elsewhere"), [(3, False), (MANY, True)])
async def test_what_is_to_become_of_many_is_decided_elsewhere(
    broker: Context, elsewhere: Elsewhere, count: int, is_elsewhere: bool
) -> None:
    def checked(response: Any) -> None:
        (codes,) = [
            {each.error_code for each in getattr(response, name)}
            for name in ("topics", "responses", "results")
            if hasattr(response, name)
        ]
        assert codes == {ErrorCode.NONE}
        assert elsewhere.count == int(is_elsewhere)
        elsewhere.count = 0

    handler: Any = create_topics
    checked(await ask(handler.handle, handler.refuse, new_topics(count), broker, 7))
    assert len(broker.image.topics) == count
    handler = incremental_alter_configs
    checked(await ask(handler.handle, handler.refuse, altered(count), broker, 1))
    assert broker.topic_config("t1").retention_ms == 1000
    handler = create_partitions
    more = CreatePartitionsTopic(name="t0", count=count, assignments=None)
    extended = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
    checked(await ask(handler.handle, handler.refuse, extended, broker, 3))
    assert len(broker.image.topics["t0"].partitions) == count
    handler = delete_topics
    names = [f"t{number}" for number in range(count)]
    deleted = DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    checked(await ask(handler.handle, handler.refuse, deleted, broker, 5))
    assert broker.image.topics == {}


async def test_a_change_that_came_between_is_seen(broker: Context) -> None:
    """What was decided elsewhere of an older image is decided again."""

    class Slow(Elsewhere):
        async def __call__(self, run: Callable[[], T], /) -> T:
            found = await super().__call__(run)
            if self.count == 1:
                await create(broker, "t7")
            return found

    slow = Slow()
    response = await ask(
        create_topics.handle,
        create_topics.refuse,
        new_topics(MANY),
        msgspec.structs.replace(broker, offload=slow),
        7,
    )
    refused = {each.name: each.error_code for each in response.topics if each.error_code}
    assert refused == {"t7": ErrorCode.TOPIC_ALREADY_EXISTS}
    assert slow.count == 2


def resources() -> DescribeConfigsRequest:
    one = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(NODE_ID), configuration_keys=["node.id"]
    )
    return DescribeConfigsRequest(resources=[one] * 3000, include_synonyms=True)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (TOPIC, ("wide", "wider")),
        (BROKER, (str(NODE_ID), str(NODE_ID))),
        (BROKER, ("", "")),
        (GROUP, ("ann", "bob")),
        (CLIENT_METRICS, ("ann", "bob")),
    ],
)
async def test_resources_that_are_alike_are_described_once(
    broker: Context, kind: int, names: tuple[str, str]
) -> None:
    for name in ("wide", "wider"):
        await create(broker, name)
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources)
    response = describe_configs.handle(request, call(4), broker)
    if isawaitable(response):
        response = await response
    assert isinstance(response, DescribeConfigsResponse)
    one, other = response.results
    assert [one.resource_name, other.resource_name] == [*names]
    assert all(each is same for each, same in zip(one.configs, other.configs, strict=True))


def epochs() -> OffsetForLeaderEpochRequest:
    wanted = [OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in range(WIDE)] * 5
    topic = OffsetForLeaderTopic(topic="wide", partitions=wanted)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


@pytest.mark.parametrize(
    ("handler", "request_", "version"),
    [
        (describe_configs, resources(), 4),
        (describe_log_dirs, DescribeLogDirsRequest(topics=None), 4),
        (offset_for_leader_epoch, epochs(), 4),
        (metadata, MetadataRequest(topics=None), 12),
    ],
)
async def test_others_have_their_turn_while_much_is_described(
    broker: Context, handler: Any, request_: Any, version: int
) -> None:
    await create(broker, "wide", WIDE)
    for number in range(300):
        await create(broker, f"others-{number}", 100)
    async with counting_turns() as turns:
        response = handler.handle(request_, call(version), broker)
        assert isawaitable(response), "a turn is not enough"
        await response
        assert turns.count > 0


async def test_many_logs_take_a_new_default_in_turns_and_the_newest_at_last(
    broker: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, "wide", 300)
    led = []
    for number in range(300):
        led.append(broker.leader_of("wide", number))
        await trio.lowlevel.checkpoint()
    monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)

    def of(retention_ms: int) -> int:
        return sum(each.log.config.retention_ms == retention_ms for each in led)

    async def set_default(retention_ms: int) -> None:
        values = {"log.retention.ms": str(retention_ms)}
        await broker.mirror.carry_out(lambda image: set_broker_defaults(image, values))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(set_default, 7000)
        seen = set()
        while of(7000) < 100:
            seen.add(of(7000))
            await trio.lowlevel.checkpoint()
        assert len(seen) > 25
        nursery.start_soon(set_default, 8000)
    while of(8000) < len(led):
        await trio.lowlevel.checkpoint()
    for _ in range(2 * len(led)):
        await trio.lowlevel.checkpoint()
    assert of(8000) == len(led)


class CountingDisk(SimulatedDisk):
    """Counts what is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def _sync(self, content: Any) -> None:
        self.syncs += 1
        super()._sync(content)


async def test_records_of_many_partitions_are_deleted_by_a_few_syncs() -> None:
    disk = CountingDisk()
    async with open_context(disk=disk) as broker:
        await create(broker, "wide", 500)

        async def delete(numbers: range) -> int:
            for number in numbers:
                produce(broker, "wide", 2, number)
                await trio.lowlevel.checkpoint()
            wanted = [DeleteRecordsPartition(partition_index=n, offset=1) for n in numbers]
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="wide", partitions=wanted)], timeout_ms=1000
            )
            before = disk.syncs
            handler: Any = delete_records
            response = await ask(handler.handle, handler.refuse, request, broker, 2)
            assert {each.low_watermark for each in response.topics[0].partitions} == {1}
            return disk.syncs - before

        few, many = await delete(range(1)), await delete(range(1, 500))
        assert many <= few + 2
