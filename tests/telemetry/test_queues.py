"""The figures of share groups: what is left, who has it, and what became of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from pyk.broker import Broker
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.handlers.context import Context
from pyk.sharing.tally import Tally
from pyk.telemetry.figures import Figures
from pyk.telemetry.queues import count_families, labels_of
from pyk.telemetry.scrape import Scrapes
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.raw import RawClient
from tests.clients.sharing import ACCEPT, REJECT, RELEASE, ShareMember
from tests.telemetry.test_figures import ask, opened, values, wanted, written

if TYPE_CHECKING:
    import pytest

GROUP_RESOURCE = 32
JOBS = ("workers", "jobs", "0")
T = TypeVar("T")


def configured(**configs: str) -> tuple[ApiKey, int, Any]:
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name="workers",
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request


async def elsewhere(run: Callable[..., T], *args: Any) -> T:
    """Clients block, and the broker is in this thread."""
    return await trio.to_thread.run_sync(run, *args)


@asynccontextmanager
async def worker(broker: Broker) -> AsyncIterator[ShareMember]:
    (address,) = broker.addresses
    with await elsewhere(RawClient, f"{address.host}:{address.port}") as client:
        yield await elsewhere(ShareMember, client, "workers", "jobs")


def shown(figures: Figures, *names: str) -> dict[str, float]:
    found = values(figures)
    return {name: found[f"pyk_queue_{name}"][JOBS] for name in names}


async def test_a_queue_shows_what_is_left_and_what_members_have(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        assert values(figures)["pyk_share_sessions"] == {(): 0}
        assert "pyk_queue_depth" not in values(figures)
        await ask(broker, wanted("jobs"), configured(share_auto_offset_reset="earliest"))
        await ask(broker, written("jobs"), written("jobs"))
        async with worker(broker) as member:
            assert await elsewhere(member.fetch, 3) == [(0, 0, 2)]
            assert shown(figures, "depth", "in_flight") == {"depth": 6, "in_flight": 3}
            await elsewhere(member.say, ACCEPT, 0, 1, 1)
            await elsewhere(member.say, RELEASE, 0, 0, 0)
            assert shown(figures, "depth", "in_flight") == {"depth": 5, "in_flight": 1}
            assert await elsewhere(member.fetch, 1) == [(0, 0, 0)]
            found = values(figures)
            assert found["pyk_share_sessions"] == {(): 1}
            assert found["pyk_groups"] == {("share", "Stable"): 1}
            assert found["pyk_group_members"] == {("workers",): 1}
            assert shown(figures, "deliveries_total", "redeliveries_total") == {
                "deliveries_total": 4,
                "redeliveries_total": 1,
            }
            assert found["pyk_queue_acknowledged_total"] == {
                (*JOBS, "accept"): 1,
                (*JOBS, "release"): 1,
            }


async def test_a_queue_that_nobody_works_on_still_shows_its_depth_and_its_counts(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("jobs"), configured(share_auto_offset_reset="earliest"))
        await ask(broker, written("jobs"))
        async with worker(broker) as member:
            await elsewhere(member.fetch)
            await elsewhere(member.say, ACCEPT, 0, 0, 0)
            await elsewhere(member.say, ACCEPT, 0, 2, 2)
        while values(figures)["pyk_share_sessions"] != {(): 0}:
            await trio.lowlevel.checkpoint()
        await ask(broker, written("jobs"))
        assert shown(figures, "depth", "in_flight", "deliveries_total") == {
            "depth": 4,
            "in_flight": 0,
            "deliveries_total": 3,
        }


async def test_the_age_of_a_queue_is_that_of_the_first_record_that_is_not_done(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("jobs"), configured(share_auto_offset_reset="earliest"))
        await ask(broker, written("jobs"))
        age = (broker.context.now_ms() - 1_700_000_000_000) / 1000
        async with worker(broker) as member:
            await elsewhere(member.fetch)
            assert age <= shown(figures, "oldest_seconds")["oldest_seconds"] < age + 60
            await elsewhere(member.say, ACCEPT, 0, 0, 2)
            assert shown(figures, "depth", "oldest_seconds") == {"depth": 0, "oldest_seconds": 0}


async def test_dead_letters_are_counted_and_so_are_those_that_are_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(
            broker,
            wanted("jobs"),
            configured(
                share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name="dead"
            ),
            written("jobs"),
        )
        async with worker(broker) as member:
            await elsewhere(member.fetch)
            await elsewhere(member.say, REJECT, 0, 0, 0)
            counted = ("dead_letters_total", "dead_letters_lost_total")
            assert shown(figures, *counted) == dict(zip(counted, (1, 0), strict=True))
            # The names of two topics must not be told apart by a dot alone.
            await ask(broker, wanted("no_such"))
            await ask(broker, configured(errors_deadletterqueue_topic_name="no.such"))
            await elsewhere(member.say, REJECT, 0, 1, 2)
            assert shown(figures, *counted) == dict(zip(counted, (1, 2), strict=True))


async def test_the_logs_of_queues_are_opened_elsewhere_for_a_scrape(tmp_path: Path) -> None:
    async with opened(tmp_path) as (broker, figures):
        await ask(broker, wanted("jobs"), configured(share_auto_offset_reset="earliest"))
        await ask(broker, written("jobs"))
        async with worker(broker) as member:
            await elsewhere(member.fetch)
    async with opened(tmp_path) as (broker, figures):
        directory, jobs = broker.context.directory, TopicPartition("jobs", 0)
        shards = broker.context.share_coordinator.shards
        while not any(shard.is_loaded and list(shard.machine) for shard in shards):
            await trio.lowlevel.checkpoint()
        assert "pyk_queue_depth" not in values(figures)
        assert directory.is_dormant(jobs)
        await Scrapes(figures).text()
        assert not directory.is_dormant(jobs)
        assert shown(figures, "depth") == {"depth": 3}


async def test_what_became_of_many_queues_is_looked_for_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (broker, _):
        await ask(broker, wanted("jobs"), written("jobs"))
        context, looked = broker.context, 0
        topic_id = context.topic_named("jobs").topic_id
        for number in range(100):
            key = SharePartitionKey("workers", topic_id, number)
            context.shares.tallies[key] = Tally(deliveries=number)

        def counting(context: Context, key: SharePartitionKey) -> dict[str, str] | None:
            nonlocal looked
            looked += 1
            return labels_of(context, key)

        monkeypatch.setattr("pyk.telemetry.queues.labels_of", counting)
        delivered = next(iter(count_families(context)))
        assert looked == 0
        values = [each.value for each in delivered.samples if each is not None]
        assert values == list(range(100))
