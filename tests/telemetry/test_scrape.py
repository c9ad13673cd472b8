"""A scrape: in turns, shared by those who ask at once, and whole but for what fails."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from pyk.telemetry.figures import Figures
from pyk.telemetry.process import PROC
from pyk.telemetry.scrape import Scrapes
from pyk.wire.apis import ApiKey
from pyk.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.sharing import ACCEPT
from tests.telemetry.test_figures import BATCH, ask, opened, wanted, written
from tests.telemetry.test_queues import configured, elsewhere, worker

if TYPE_CHECKING:
    import pytest

WIDE = 500
Found = dict[str, dict[tuple[str, ...], float]]


async def scraped(scrapes: Scrapes | Figures) -> Found:
    """By name and by the values of labels."""
    scrapes = Scrapes(scrapes) if isinstance(scrapes, Figures) else scrapes
    text = b"".join(await scrapes.text()).decode()
    return {
        family.name: {tuple(each.labels.values()): each.value for each in family.samples}
        for family in text_string_to_metric_families(text)
    }


def made(topic: str, partitions: int) -> tuple[ApiKey, int, Any]:
    new = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    return ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[new], timeout_ms=60_000)


def written_to_all(topic: str, partitions: int) -> tuple[ApiKey, int, Any]:
    data = [PartitionProduceData(index=number, records=BATCH) for number in range(partitions)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=60_000, topic_data=topics)


def coordinated(group: str) -> tuple[ApiKey, int, Any]:
    return ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group)


def committed(group: str, topic: str, partitions: int) -> tuple[ApiKey, int, Any]:
    offsets = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=""
        )
        for number in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=offsets)]
    return ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id=group, topics=topics)


async def test_others_go_on_while_many_figures_are_written(tmp_path: Path) -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with opened(tmp_path) as (broker, figures):
        groups = [committed(f"g{number}", "wide", WIDE) for number in range(4)]
        await ask(broker, made("wide", WIDE), coordinated("g"), *groups)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on)
            # Each turn is over with the first line that takes any time at all.
            found = await scraped(Scrapes(figures, turn_nanoseconds=0))
            nursery.cancel_scope.cancel()
    assert len(found["pyk_group_offset"]) == 4 * WIDE
    assert turns > 4 * WIDE, "one line is written at a time"


async def test_who_asks_while_figures_are_written_is_given_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("t"), written("t"))
        scrapes = Scrapes(figures, turn_nanoseconds=0)
        answers = []

        async def read() -> None:
            answers.append(await scrapes.text())

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(read)
        assert scrapes.written == 1
        assert all(each is answers[0] for each in answers)
        await read()
        assert scrapes.written == 2


async def test_a_reader_who_hangs_up_leaves_the_others_their_figures(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, figures):
        scrapes = Scrapes(figures, turn_nanoseconds=0)
        answers = []

        async def read(scope: trio.CancelScope) -> None:
            with scope:
                answers.append(await scrapes.text())

        scopes = [trio.CancelScope() for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for scope in scopes:
                nursery.start_soon(read, scope)
                await trio.lowlevel.checkpoint()
            scopes[0].cancel()
        assert len(answers) == 2
        assert scrapes.written == 2


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened. What is open stays so."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_without_descriptors_all_is_shown_but_what_needs_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("t"), written("t"))
        whole = await scraped(figures)
        with no_descriptors():
            found = await scraped(figures)
            found = await scraped(figures)
        failed = {"process_resident_memory_bytes", "process_start_time_seconds"}
        if not os.stat(PROC / "fd").st_size:
            failed.add("process_open_fds")  # Before Linux 6.2 they have to be named.
        assert whole.keys() - found.keys() == failed
        assert {name for (name,) in found["pyk_metrics_failures"]} == failed
        assert len([each for each in caplog.records if each.exc_info]) == len(failed), "said once"
        assert (await scraped(figures)).keys() == whole.keys()


async def test_a_queue_whose_first_batch_is_damaged_has_no_age_and_ends_nothing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("jobs"), configured(share_auto_offset_reset="earliest"))
        await ask(broker, written("jobs"), written("jobs"))
        async with worker(broker) as member:
            await elsewhere(member.fetch)
            await elsewhere(member.say, ACCEPT, 0, 0, 2)
        assert (await scraped(figures))["pyk_queue_oldest_seconds"]
        (segment,) = (tmp_path / "data" / "jobs-0").glob("*.log")
        with segment.open("r+b") as file:
            file.seek(len(BATCH) + 16)  # The magic of the second batch.
            file.write(b"\xff")
        found = await scraped(figures)
        assert found["pyk_queue_oldest_seconds"] == {}
        assert found["pyk_queue_depth"] == {("workers", "jobs", "0"): 3}
        assert found["pyk_metrics_failures"] == {}


async def test_a_scrape_leaves_logs_dormant_and_knows_how_far_groups_are_behind(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (broker, _):
        await ask(broker, made("wide", 5), written_to_all("wide", 5), coordinated("g"))
        await ask(broker, committed("g", "wide", 5))
    async with opened(tmp_path) as (broker, figures):
        with trio.fail_after(10):
            while not (await scraped(figures))["pyk_group_offset"]:
                await trio.lowlevel.checkpoint()
        awake = {partition.topic for partition in broker.context.directory.logs}
        assert "wide" not in awake
        lags = (await scraped(figures))["pyk_group_lag"]
        assert lags == {("g", "wide", str(number)): 2 for number in range(5)}
        await ask(broker, written("wide"))
        assert (await scraped(figures))["pyk_group_lag"]["g", "wide", "0"] == 5
