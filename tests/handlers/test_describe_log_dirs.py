"""DescribeLogDirs: the directory, its partitions, and their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import describe_log_dirs
from pyk.handlers.context import Context
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.metadata.records import BrokerRecord
from pyk.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.handlers.brokers import ask, create, open_context, produce
from tests.simulated_disk import ROOT, SimulatedDisk


async def answered(
    broker: Context, topics: dict[str, list[int]] | None, version: int = 5
) -> DescribeLogDirsResult:
    asked = None
    if topics is not None:
        asked = [
            DescribableLogDirTopic(topic=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    response = await ask(
        describe_log_dirs.handle,
        describe_log_dirs.refuse,
        DescribeLogDirsRequest(topics=asked),
        broker,
        version,
    )
    assert response.error_code == ErrorCode.NONE
    [result] = response.results
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, dict[int, int]]:
    for topic in result.topics:
        assert not any(each.offset_lag or each.is_future_key for each in topic.partitions)
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in result.topics
    }


@pytest.mark.parametrize("version", range(1, 6))
async def test_sizes_are_those_of_the_records(broker: Context, version: int) -> None:
    await create(broker, "orders", 2)
    produce(broker, "orders", 10)
    result = await answered(broker, {"orders": [0, 1]}, version)
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(ROOT / "logs"))
    size = broker.leader_of("orders", 0).log.size
    assert size > 61
    assert sizes(result) == {"orders": {0: size, 1: 0}}
    assert not result.is_cordoned


async def test_no_list_is_all_topics(broker: Context) -> None:
    await create(broker, "orders", 2)
    await create(broker, "parcels")
    assert sizes(await answered(broker, None)) == {"orders": {0: 0, 1: 0}, "parcels": {0: 0}}


async def test_an_empty_list_is_no_topics(broker: Context) -> None:
    await create(broker, "orders")
    result = await answered(broker, {})
    assert (result.log_dir, result.topics) == (str(ROOT / "logs"), [])
    assert (await answered(broker, {"orders": []})).topics == []


async def test_what_is_not_there_is_left_out(broker: Context) -> None:
    await create(broker, "orders")
    result = await answered(broker, {"orders": [0, 7, -1, 0], "nope": [0]})
    assert sizes(result) == {"orders": {0: 0}}


async def test_what_is_elsewhere_is_left_out() -> None:
    async with open_context(others={2: BrokerRecord(())}) as broker:
        await create(broker, "orders", 2)
        here = [state.leader for state in broker.topic_named("orders").partitions].index(1)
        assert sizes(await answered(broker, None)) == {"orders": {here: 0}}


async def test_dormant_logs_are_measured_and_stay_dormant() -> None:
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await create(broker, "orders", 3)
        produce(broker, "orders", 10)
        produce(broker, "orders", 5, partition=1)
        before = sizes(await answered(broker, None))
        broker.directory.close()
        broker.directory = DataDirectory.open(
            disk, ROOT / "logs", lambda _: LogConfig(), may_be_dormant=True
        )
        assert sizes(await answered(broker, None)) == before
        assert before["orders"][0] > before["orders"][1] > before["orders"][2] == 0
        assert broker.directory.logs == {}


async def test_space_is_unknown_where_there_is_no_file_system(broker: Context) -> None:
    result = await answered(broker, {})
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_space_is_that_of_the_file_system(tmp_path: Path) -> None:
    space = describe_log_dirs.space_of(tmp_path)
    assert 0 <= space.usable_bytes <= space.total_bytes
    assert space.total_bytes > 0
