"""A bug in one share partition: its members hear of it, and it begins again with what is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyk.coordinator.group_configs import GroupConfigs
from pyk.coordinator.share_coordinator import Persister, ShareState
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode
from pyk.handlers.automatic_topics import found_or_made
from pyk.handlers.context import Context
from pyk.metadata.controller import set_group_config
from pyk.sharing.shares import Shares
from tests.handlers.brokers import create, produce
from tests.handlers.queues import (
    GROUP,
    TOPIC,
    Worker,
    acquired,
    initialise,
    of_partition,
    open_queue,
)

REJECT, ACCEPT = [3], [1]
LOCKED = 30.0


class Bug(Exception):
    """Nobody has foreseen it."""


class FaultyPersister(Persister):
    """The broker's own, with a bug for some partitions."""

    def __init__(self, persister: Persister) -> None:
        super().__init__(persister._shards)
        self.fails_at_once: set[str] = set()
        self.fails_later: set[str] = set()

    def read(
        self, key: SharePartitionKey, *, leader_epoch: int
    ) -> ShareState | Awaitable[ShareState]:
        failing = self._failing(key)
        return super().read(key, leader_epoch=leader_epoch) if failing is None else failing

    def write(self, key: SharePartitionKey, **progress: Any) -> Awaitable[None] | None:
        failing = self._failing(key)
        return super().write(key, **progress) if failing is None else failing

    def _failing(self, key: SharePartitionKey) -> Awaitable[Any] | None:
        if key.text in self.fails_at_once:
            raise Bug
        return _fail_later() if key.text in self.fails_later else None


async def _fail_later() -> Any:
    await trio.sleep(1)
    raise Bug


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_queue() as broker:
        broker.shares_led = Shares(
            replicas=broker.replicas,
            persister=FaultyPersister(broker.share_coordinator.persister),
            group_config=GroupConfigs(lambda: broker.settings, broker.mirror).of,
            sessions_max=lambda: 1000,
            now_ms=broker.now_ms,
            start_soon=broker.start_soon,
            topic_for_letters=lambda name: found_or_made(name, broker),
        )
        broker.start_soon(broker.shares_led.run)
        yield broker


def persister_of(broker: Context) -> FaultyPersister:
    found = broker.shares.persister
    assert isinstance(found, FaultyPersister)
    return found


@pytest.fixture(params=["at once", "later"])
def failing(request: pytest.FixtureRequest, broker: Context) -> set[str]:
    """To which the keys of share partitions are added that fail."""
    found = persister_of(broker)
    return found.fails_at_once if request.param == "at once" else found.fails_later


def key_of(broker: Context, topic: str = TOPIC) -> str:
    return SharePartitionKey(GROUP, broker.topic_named(topic).topic_id, 0).text


async def test_a_share_partition_that_cannot_begin_is_begun_again(
    broker: Context, failing: set[str], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    failing.add(key_of(broker))
    data = of_partition(await ann.fetch(max_wait_ms=5000))
    assert data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert f"the share partition {key_of(broker)} failed" in caplog.text
    assert "Traceback" in caplog.text
    failing.clear()
    assert acquired(await ann.fetch(max_wait_ms=5000)) == [(0, 1, 1)]


async def test_a_share_partition_that_fails_begins_again_and_takes_no_other_with_it(
    broker: Context, failing: set[str], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await create(broker, "other")
    await initialise(broker, "other")
    produce(broker, "other", 1)
    produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", "other")
    assert acquired(await ann.fetch()) == [(0, 1, 1)]
    failing.add(key_of(broker))
    answer = await ann.acknowledge((0, 0, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "Traceback" in caplog.text
    assert acquired(await bob.fetch()) == [(0, 0, 1)]
    failing.clear()
    assert acquired(await ann.fetch(max_wait_ms=1000)) == [(0, 1, 2)]


async def test_dead_letters_and_locks_that_meet_a_bug_end_nothing(
    broker: Context, failing: set[str], autojump_clock: MockClock
) -> None:
    configs = {"errors.deadletterqueue.topic.name": "dead"}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, configs))
    produce(broker, TOPIC, 2)
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    failing.add(key_of(broker))
    answer = await ann.acknowledge((0, 0, REJECT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    failing.clear()
    assert acquired(await ann.fetch(max_wait_ms=1000)) == [(0, 1, 2)]
    failing.add(key_of(broker))
    await trio.sleep(2 * LOCKED)
    failing.clear()
    assert acquired(await ann.fetch(max_wait_ms=1000)) == [(0, 1, 3)]


async def test_a_member_that_is_gone_ends_nothing_though_its_records_meet_a_bug(
    broker: Context, failing: set[str], autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 2)
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    failing.add(key_of(broker))
    ann.die()
    await trio.sleep(2)
    failing.clear()
    assert acquired(await bob.fetch(max_wait_ms=1000)) == [(0, 1, 2)]
