"""The figures of a broker that was used, as Prometheus would read them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from pyk.broker import Broker, open_broker
from pyk.config.settings import BrokerSettings
from pyk.daemon import observed
from pyk.metrics import exposition
from pyk.telemetry.figures import Figures
from pyk.telemetry.loop import INTERVAL
from pyk.wire.apis import ApiKey
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pyk.wire.messages.end_txn import EndTxnRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from tests.clients.raw import CLIENT_ID, RawClient

DEPLOY = Path(__file__).parents[2] / "deploy"
BATCH = build_batch([Record(i, 1_700_000_000_000, None, b"value") for i in range(3)])


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Broker, Figures]]:
    settings = BrokerSettings(
        {"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    )
    async with open_broker(settings) as broker, observed(broker) as figures:
        yield broker, figures


async def ask(broker: Broker, *requests: tuple[ApiKey, int, Any]) -> list[Any]:
    """On one connection, which is open while the answers are looked at."""
    (address,) = broker.addresses

    def converse() -> list[Any]:
        with RawClient(f"{address.host}:{address.port}") as client:
            return [client.ask(*request) for request in requests]

    return await trio.to_thread.run_sync(converse)


def wanted(topic: str) -> tuple[ApiKey, int, Any]:
    return ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def written(topic: str, partition: int = 0) -> tuple[ApiKey, int, Any]:
    data = [PartitionProduceData(index=partition, records=BATCH)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)


def read(topic: str, offset: int, wait_ms: int = 0) -> tuple[ApiKey, int, Any]:
    partitions = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10**6)]
    topics = [FetchTopic(topic=topic, partitions=partitions)]
    return ApiKey.FETCH, 11, FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)


def values(figures: Figures) -> dict[str, dict[tuple[str, ...], float]]:
    """By name and by the values of labels, but for buckets."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(exposition(figures.families())):
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                labels = tuple(sample.labels.values())
                found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def test_requests_and_their_bytes_time_and_errors_are_counted(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("t"), written("t"), written("t"), written("t", partition=7))
        found = values(figures)
    assert found["pyk_requests_total"] == {("Metadata",): 1, ("Produce",): 3}
    assert found["pyk_errors_total"] == {("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1}
    assert 3 * len(BATCH) < found["pyk_request_bytes_total"]["Produce",] < 3 * len(BATCH) + 300
    assert found["pyk_response_bytes_total"]["Produce",] > 0
    assert found["pyk_request_seconds_count"]["Produce",] == 3
    assert found["pyk_request_seconds_sum"]["Produce",] > 0


async def test_a_fetch_that_waits_is_seen_to_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("t"), read("t", 0, wait_ms=50))
        found = values(figures)
    waited = found["pyk_request_wait_seconds_total"]["Fetch",]
    assert 0.045 < waited <= found["pyk_request_seconds_sum"]["Fetch",]


async def test_a_partition_shows_its_offsets_and_what_went_in_and_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("t"), written("t"), written("t"), read("t", 0), read("t", 3))
        found = values(figures)
    shown = {
        name.removeprefix("pyk_partition_"): samples["t", "0"]
        for name, samples in found.items()
        if name.startswith("pyk_partition_")
    }
    assert shown == {
        "log_bytes": 2 * len(BATCH),
        "log_start_offset": 0,
        "log_end_offset": 6,
        "high_watermark": 6,
        "last_stable_offset": 6,
        "bytes_in_total": 2 * len(BATCH),
        "records_in_total": 6,
        "bytes_out_total": 3 * len(BATCH),
    }


async def test_a_client_that_commits_nothing_shows_how_far_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("orders"), written("orders"), read("orders", 0))
        await ask(broker, written("orders"))
        found = values(figures)
        reader = (CLIENT_ID, "orders", "0")
        assert found["pyk_reader_offset"] == {reader: 3}
        assert found["pyk_reader_lag"] == {reader: 3}
        assert found["pyk_reader_offsets_total"] == {reader: 3}


async def test_groups_show_their_state_offsets_and_lag(tmp_path: Path) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=2, committed_metadata=""
    )
    committed = OffsetCommitRequest(
        group_id="shop", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )
    async with opened(tmp_path) as (broker, figures):
        assert values(figures)["pyk_group_rebalances_total"] == {(): 0}
        await ask(
            broker,
            wanted("orders"),
            written("orders"),
            (ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="shop")),
            (ApiKey.OFFSET_COMMIT, 7, committed),
        )
        found = values(figures)
        assert found["pyk_groups"] == {("classic", "Empty"): 1}
        assert found["pyk_group_members"] == {("shop",): 0}
        assert found["pyk_group_offset"] == {("shop", "orders", "0"): 2}
        assert found["pyk_group_lag"] == {("shop", "orders", "0"): 1}


def begun(name: str) -> tuple[ApiKey, int, Any]:
    """The first request for an id, which has the topic of transactions made."""
    return ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=name, key_type=1)


def initialised(name: str) -> tuple[ApiKey, int, Any]:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    return ApiKey.INIT_PRODUCER_ID, 4, request


def joined(name: str, producer_id: int, topic: str) -> tuple[ApiKey, int, Any]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    return ApiKey.ADD_PARTITIONS_TO_TXN, 3, request


def ended(name: str, producer_id: int) -> tuple[ApiKey, int, Any]:
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=0, committed=True
    )
    return ApiKey.END_TXN, 3, request


def transaction_figures(figures: Figures) -> dict[str, Any]:
    found = values(figures)
    shown = {
        name.removeprefix("pyk_transactions_"): found[name][()]
        for name in found
        if name.startswith("pyk_transactions_")
    }
    return {**shown, "states": found.get("pyk_transactions", {})}


async def test_transactions_show_their_states_and_what_became_of_them(tmp_path: Path) -> None:
    nothing = {"started_total": 0, "committed_total": 0, "aborted_total": 0, "timed_out_total": 0}
    async with opened(tmp_path) as (broker, figures):
        assert transaction_figures(figures) == {**nothing, "states": {}}
        assert values(figures)["pyk_transaction_oldest_seconds"] == {(): 0}
        *_, given = await ask(broker, wanted("orders"), begun("shop"), initialised("shop"))
        assert transaction_figures(figures) == {**nothing, "states": {("Empty",): 1}}
        await ask(broker, joined("shop", given.producer_id, "orders"))
        assert transaction_figures(figures) == {
            **nothing, "started_total": 1, "states": {("Ongoing",): 1},
        }  # fmt: skip
        with trio.fail_after(10):
            while not values(figures)["pyk_transaction_oldest_seconds"][()]:
                await trio.lowlevel.checkpoint()
        assert values(figures)["pyk_transaction_oldest_seconds"][()] < 10
        await ask(broker, ended("shop", given.producer_id))
        while transaction_figures(figures)["states"] != {("CompleteCommit",): 1}:
            await trio.lowlevel.checkpoint()
        found = values(figures)
    assert found["pyk_transaction_markers_outstanding"] == {(): 0}
    assert found["pyk_transaction_oldest_seconds"] == {(): 0}
    assert found["pyk_transactions_committed_total"] == {(): 1}


async def test_a_partition_shows_how_far_a_transaction_holds_readers_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        *_, given = await ask(broker, wanted("orders"), begun("shop"), initialised("shop"))
        batch = build_batch(
            [Record(0, 1_700_000_000_000, None, b"value")],
            producer_id=given.producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=0, records=batch)]
        request = ProduceRequest(
            transactional_id="shop",
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="orders", partition_data=data)],
        )
        await ask(
            broker,
            written("orders"),
            joined("shop", given.producer_id, "orders"),
            (ApiKey.PRODUCE, 9, request),
            written("orders"),
        )
        found = values(figures)
        assert found["pyk_partition_high_watermark"]["orders", "0"] == 7
        assert found["pyk_partition_last_stable_offset"]["orders", "0"] == 3
        await ask(broker, ended("shop", given.producer_id))
        while values(figures)["pyk_partition_last_stable_offset"]["orders", "0"] != 8:
            await trio.lowlevel.checkpoint()


async def test_connections_come_and_go(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        assert values(figures)["pyk_connections"] == {("PLAINTEXT",): 0}
        (address,) = broker.addresses
        async with await trio.open_tcp_stream(address.host, address.port):
            while not broker.server.connections:
                await trio.lowlevel.checkpoint()
            assert values(figures)["pyk_connections"] == {("PLAINTEXT",): 1}
        while broker.server.connections:
            await trio.lowlevel.checkpoint()
        found = values(figures)
    assert found["pyk_connections"] == {("PLAINTEXT",): 0}
    assert found["pyk_connections_accepted_total"] == {(): 1}


async def test_the_process_shows_memory_descriptors_and_its_age(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, figures):
        found = values(figures)
    assert found["process_resident_memory_bytes"][()] > 10**6
    assert 0 < found["process_open_fds"][()] < found["process_max_fds"][()]
    assert found["process_start_time_seconds"][()] > 1_700_000_000
    assert found["process_cpu_seconds_total"][()] > 0


async def test_a_loop_that_is_kept_busy_is_late(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, figures):
        await trio.testing.wait_all_tasks_blocked()
        spin(INTERVAL + 0.3)
        await trio.testing.wait_all_tasks_blocked()
    assert figures.loop.delay.count >= 1
    assert figures.loop.delay.seconds > 0.2


def spin(seconds: float) -> None:
    ends = trio.current_time() + seconds
    while trio.current_time() < ends:
        pass


@pytest.mark.parametrize("file", ["grafana/pyk.json", "prometheus/alerts.yml"])
async def test_the_dashboard_and_the_alerts_ask_for_figures_that_there_are(
    file: str, tmp_path: Path
) -> None:
    async with opened(tmp_path) as (_, figures):
        text = exposition(figures.families())
    names = {family.name for family in text_string_to_metric_families(text)}
    asked = set(re.findall(r"\b(?:pyk|process|python)_[a-z_]+", (DEPLOY / file).read_text()))
    stems = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in asked}
    assert len(stems) > 5
    assert stems <= {re.sub(r"_total$", "", name) for name in names}


def test_the_dashboard_has_no_two_panels_in_one_place() -> None:
    dashboard = json.loads((DEPLOY / "grafana/pyk.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
