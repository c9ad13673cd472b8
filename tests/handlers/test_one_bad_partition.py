"""A partition whose log is damaged, cannot be read or meets a bug is answered for alone: with
an error code of its own, while what else a request names is served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from pyk.errors import ErrorCode
from pyk.handlers import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
)
from pyk.handlers import produce as produce_
from pyk.handlers.context import Context
from pyk.types import TopicPartition
from pyk.wire.batch import encode_batch
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from tests.handlers.brokers import NOW_MS, ask, create, open_context, produce
from tests.simulated_disk import ROOT, SimulatedDisk, SimulatedFile

BAD, GOOD = "bad", "good"
BATCHES = 3
OTHERS = range(20)


class FailingDisk(SimulatedDisk):
    """It cannot open files of logs. Those that are open go on."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        if self.failure is not None and path.suffix == ".log":
            raise self.failure
        return super().open(path, must_exist=must_exist)


@asynccontextmanager
async def closed_log() -> AsyncIterator[tuple[Context, FailingDisk]]:
    """The log of the bad partition holds no descriptor, so that whoever reads it has to open it."""
    disk = FailingDisk()
    async with open_context({"log.segment.bytes": "1048576"}, disk=disk) as broker:
        for name in (BAD, GOOD):
            await create(broker, name)
            for _ in range(BATCHES):
                produce(broker, name, 1)
        broker.leader_of(BAD, 0).log.roll()
        yield broker, disk


def fetched_from(*names: str, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)]
    topics = [FetchTopic(topic=name, partitions=wanted) for name in names]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=10_000_000, topics=topics
    )


async def fetch_both(broker: Context) -> dict[str, tuple[int, int]]:
    """The code and the number of bytes of each topic."""
    request = fetched_from(BAD, GOOD)
    response = await ask(fetch.handle, fetch.refuse, request, broker, version=12)
    return {
        topic.topic: (each.error_code, len(each.records or b""))
        for topic in response.responses
        for each in topic.partitions
    }


async def list_both(broker: Context) -> dict[str, tuple[int, int]]:
    """The code and the offset of the first record since the beginning."""
    asked = [ListOffsetsPartition(partition_index=0, timestamp=NOW_MS)]
    topics = [ListOffsetsTopic(name=name, partitions=asked) for name in (BAD, GOOD)]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    response = await ask(list_offsets.handle, list_offsets.refuse, request, broker, version=7)
    return {
        topic.name: (each.error_code, each.offset)
        for topic in response.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LookupError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("ask_both", [fetch_both, list_both])
async def test_what_fails_is_that_partitions_and_is_told_in_the_log(
    ask_both: Callable[[Context], Any],
    failure: Exception,
    code: ErrorCode,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with closed_log() as (broker, disk):
        healthy = await ask_both(broker)
        log = broker.leader_of(BAD, 0).log
        log.flush()
        log.release()
        disk.failure = failure
        found = await ask_both(broker)
        assert found[BAD][0] == code
        assert found[GOOD] == healthy[GOOD]
        assert found[GOOD][0] == ErrorCode.NONE
        assert BAD in caplog.text
        assert "Traceback" in caplog.text
        assert broker.failures.count == 1
        disk.failure = None
        assert await ask_both(broker) == healthy


@pytest.mark.parametrize("ask_both", [fetch_both, list_both])
async def test_a_damaged_log_is_not_the_clients_fault(
    ask_both: Callable[[Context], Any],
) -> None:
    async with closed_log() as (broker, disk):
        disk.flip_bit(ROOT / "logs" / f"{BAD}-0" / f"{0:020}.log", 16, 3)
        found = await ask_both(broker)
        assert found[BAD][0] == ErrorCode.CORRUPT_MESSAGE
        assert found[GOOD][0] == ErrorCode.NONE


async def test_who_waits_for_many_partitions_hears_of_the_one_that_is_damaged(
    autojump_clock: MockClock,
) -> None:
    async with closed_log() as (broker, disk):
        await create(broker, "others", 20)
        disk.flip_bit(ROOT / "logs" / f"{BAD}-0" / f"{0:020}.log", 16, 3)
        request = fetched_from(BAD, GOOD, max_wait_ms=10_000, min_bytes=1_000_000)
        many = [
            FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=9) for n in range(20)
        ]
        request.topics.append(FetchTopic(topic="others", partitions=many))
        response = await ask(fetch.handle, fetch.refuse, request, broker, version=12)
        codes = {each.partitions[0].error_code for each in response.responses}
        assert codes == {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE}


async def test_a_batch_that_does_not_inflate_is_no_reason_to_hang_up(broker: Context) -> None:
    await create(broker, BAD)
    await create(broker, GOOD)
    produce(broker, GOOD, 1)
    unreadable = encode_batch(
        b"this is not gzip", base_offset=0, partition_leader_epoch=-1, attributes=1,
        last_offset_delta=0, base_timestamp=NOW_MS, max_timestamp=NOW_MS, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, records_count=1,
    )  # fmt: skip
    broker.leader_of(BAD, 0).produce(unreadable, acks=1, now_ms=NOW_MS)
    found = await list_both(broker)
    assert found[BAD] in ((ErrorCode.CORRUPT_MESSAGE, -1), (ErrorCode.NONE, 0))
    assert found[GOOD] == (ErrorCode.NONE, 0)


def produced_to(*names: str) -> ProduceRequest:
    batch = build_batch([Record(0, NOW_MS, None, b"value")])
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=bytearray(batch))]
            )
            for name in names
        ],
    )


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(24, "Too many open files"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LookupError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_batch_that_was_appended_is_told_of_whatever_befalls_another(
    failure: Exception, code: ErrorCode
) -> None:
    disk = FailingDisk()
    async with open_context(disk=disk) as broker:
        for name in (GOOD, BAD):
            await create(broker, name)
        produce(broker, GOOD, 1)
        disk.failure = failure
        good, bad = await produce_to(broker, GOOD, BAD)
        assert bad == (code, -1)
        assert good == (ErrorCode.NONE, 1)
        assert broker.leader_of(GOOD, 0).offsets.end == 2
        disk.failure = None
        assert await produce_to(broker, BAD) == [(ErrorCode.NONE, 0)]


async def produce_to(broker: Context, *names: str) -> list[tuple[int, int]]:
    """The code and the base offset of each."""
    handle, refuse = produce_.handle, produce_.refuse
    response = await ask(handle, refuse, produced_to(*names), broker, version=11)
    assert response is not None
    partitions = [each for topic in response.responses for each in topic.partition_responses]
    return [(each.error_code, each.base_offset) for each in partitions]


async def test_every_request_about_partitions_answers_for_each(broker: Context) -> None:
    """Also those that need no more than to open a log, which is not there for who only looks."""
    for name in (BAD, GOOD):
        await create(broker, name)
    for_epoch = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
            for name in (BAD, GOOD)
        ],
    )
    ends = await ask(
        offset_for_leader_epoch.handle, offset_for_leader_epoch.refuse, for_epoch, broker, 4
    )
    assert [e.end_offset for t in ends.topics for e in t.partitions] == [0, 0]
    deleted = await ask(
        delete_records.handle,
        delete_records.refuse,
        DeleteRecordsRequest(
            timeout_ms=1000,
            topics=[
                DeleteRecordsTopic(
                    name=name,
                    partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)],
                )
                for name, offset in ((BAD, 5), (GOOD, -1))
            ],
        ),
        broker,
        2,
    )
    assert [(e.error_code, e.low_watermark) for t in deleted.topics for e in t.partitions] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.NONE, 0),
    ]
    described = await ask(
        describe_producers.handle,
        describe_producers.refuse,
        DescribeProducersRequest(topics=[TopicRequest(name=BAD, partition_indexes=[0])]),
        broker,
        0,
    )
    assert described.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert TopicPartition(BAD, 0) not in broker.directory.partitions
