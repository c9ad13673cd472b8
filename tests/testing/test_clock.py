"""The clock of a test broker, and what a broker does when it jumps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pyk.testing import Record, ThreadBroker, serve_in_thread
from tests.clients.raw import RawClient
from tests.testing.asking import fetch

HOUR = 3600.0


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


def test_it_tells_the_time_until_it_is_moved(broker: ThreadBroker) -> None:
    clock = broker.clock
    assert abs(clock.now_ms() - time.time() * 1000) < 10_000
    clock.advance(timedelta(days=1))
    assert 86_000_000 < clock.now_ms() - time.time() * 1000 < 87_000_000
    clock.step(timedelta(days=-2))
    assert -87_000_000 < clock.now_ms() - time.time() * 1000 < -86_000_000
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


def test_held_it_stands_still_and_goes_on_from_there(broker: ThreadBroker) -> None:
    with broker.clock.hold() as clock, clock.hold():
        moments = {broker.produce("orders", b"v")[0].timestamp for _ in range(50)}
        assert len(moments) == 1
        clock.advance(HOUR)
        (then,) = broker.produce("orders", b"v")
        assert then.timestamp == moments.pop() + 3_600_000
    assert broker.produce("orders", b"v")[0].timestamp >= then.timestamp


def test_a_fetch_that_waits_is_answered_when_its_time_is_up(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    with (
        broker.clock.hold() as clock,
        RawClient(broker.bootstrap_servers) as client,
        ThreadPoolExecutor() as elsewhere,
    ):
        answer = elsewhere.submit(fetch, client, "orders", 0, wait_ms=3_600_000)
        broker.requests.wait("Fetch")
        clock.advance(HOUR - 1)
        assert not answer.done()
        clock.advance(1.0)
        assert answer.result(10).error_code == 0


def test_records_that_are_too_old_are_gone_when_the_jump_is_over(broker: ThreadBroker) -> None:
    topic = broker.topic(configs={"retention.ms": "3600000"})
    broker.produce(topic, b"old")
    broker.clock.advance(HOUR / 2)
    assert len(broker.records(topic)) == 1
    broker.clock.advance(HOUR)
    assert broker.records(topic) == []
    assert broker.produce(topic, b"new")[0].offset == 1


def test_a_compacted_topic_is_compacted_when_the_jump_is_over(broker: ThreadBroker) -> None:
    # What is compacted is durable, and records are flushed only if that is asked for.
    always = {"min.cleanable.dirty.ratio": "0", "flush.messages": "1"}
    topic = broker.topic(configs={"cleanup.policy": "compact", "segment.ms": "1000", **always})
    broker.produce(topic, Record(key=b"k", value=b"1"), Record(key=b"k", value=b"2"))
    broker.clock.advance(2)
    broker.produce(topic, Record(key=b"other", value=b"3"))
    broker.clock.advance(60)
    assert [record.value for record in broker.records(topic)] == [b"2", b"3"]


def test_it_goes_on_after_a_restart(broker: ThreadBroker) -> None:
    broker.clock.advance(HOUR)
    broker.restart()
    assert broker.produce("orders", b"v")[0].timestamp > time.time() * 1000 + 3_000_000
