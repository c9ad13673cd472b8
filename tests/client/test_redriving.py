"""Dead letters go back once each, whatever the network loses on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import pytest

from pyk.client.address import Address
from pyk.client.cluster import Cluster
from pyk.client.connection import Connection, Unreachable
from pyk.client.offsets import LATEST, find_offsets
from pyk.client.reading import Span
from pyk.client.redriving import Choice, Redrive
from pyk.client.settings import ClientSettings
from pyk.errors import KafkaError
from pyk.testing import Record, ThreadBroker, serve_in_thread
from pyk.types import TopicPartition

LETTERS = 3
GROUPS = ("billing", "shipping", "audit")

Cut = Literal["before", "after", "interrupt"]
"""The connection breaks before the next request is handled, or after that; or the user has enough
before it is sent."""


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


class Unlucky(Cluster):
    """Where something happens once, at a step: as often as a connection is looked for, that is
    before each request. It has no patience with what has failed."""

    def __init__(self, broker: ThreadBroker, step: int = 0, cut: Cut = "before") -> None:
        address = Address(broker.host, broker.port)
        super().__init__(ClientSettings(bootstrap=(address,), patience=0.0))
        self._faults, self._cut, self._left = broker.faults, cut, step

    @property
    def is_over(self) -> bool:
        """Whether the step has not come."""
        return self._left > 0

    def any_broker(self) -> Connection:
        self._step()
        return super().any_broker()

    def broker(self, broker_id: int) -> Connection:
        self._step()
        return super().broker(broker_id)

    def leader(self, partition: TopicPartition) -> Connection:
        self._step()
        return super().leader(partition)

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0 and self._cut == "interrupt":
            raise KeyboardInterrupt
        if self._left == 0:
            target = self._faults.on(times=1)
            (target.cut_before if self._cut == "before" else target.cut_after)()


def letter(group: str, topic: str, value: str) -> Record:
    told = {
        "topic": topic,
        "partition": "0",
        "offset": "0",
        "group": group,
        "delivery.count": "5",
    }
    headers = tuple((f"__dlq.errors.{name}", text.encode()) for name, text in told.items())
    return Record(key=b"k", value=value.encode(), headers=headers)


def bury(broker: ThreadBroker, topic: str) -> list[str]:
    """So many letters of each group, all of one partition. What they say."""
    texts = [f"{group} {number}" for group in GROUPS for number in range(LETTERS)]
    broker.create_topic(topic)
    letters = [letter(text.split()[0], topic, text) for text in texts]
    broker.produce(f"{topic}-dead", *letters)
    return texts


def sent(cluster: Cluster, topic: str) -> tuple[int, int]:
    """Redrive everything. How many letters it says it has sent, and has found sent."""
    at = TopicPartition(f"{topic}-dead", 0)
    running: Redrive | None = None
    with suppress(KafkaError, Unreachable, KeyboardInterrupt):
        end = find_offsets(cluster, {at: LATEST})[at]
        running = Redrive(cluster, at.topic, Choice(spans={at: Span(0, end)}))
        running.carry_out()
    outcomes = running.outcomes.values() if running is not None else ()
    return sum(each.count for each in outcomes), sum(each.found for each in outcomes)


def texts_of(broker: ThreadBroker, topic: str) -> list[str]:
    return [(each.value or b"").decode() for each in broker.records(topic)]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_letters_of_others_do_not_take_the_number_of_those_whose_answer_was_lost(
    broker: ThreadBroker, cut: Cut
) -> None:
    topic = f"number-{cut}"
    texts = bury(broker, topic)
    target = broker.faults.on("Produce", topic=topic, times=1)
    (target.cut_before if cut == "before" else target.cut_after)()
    with Unlucky(broker) as cluster:
        assert sent(cluster, topic) == (2 * LETTERS, 0)
        assert Counter(texts[LETTERS:]) <= Counter(texts_of(broker, topic))
        assert sum(sent(cluster, topic)) == LETTERS
    assert Counter(texts_of(broker, topic)) == Counter(texts)


@pytest.mark.parametrize("cut", ["before", "after", "interrupt"])
def test_whichever_request_fails_each_letter_is_sent_once_and_none_is_told_that_is_not(
    broker: ThreadBroker, cut: Cut
) -> None:
    bury(broker, f"warm-{cut}")
    with Cluster.connect(broker.bootstrap_servers) as cluster:
        sent(cluster, f"warm-{cut}")
    for step in range(1, 100):
        topic = f"step-{cut}-{step}"
        texts = bury(broker, topic)
        with Unlucky(broker, step, cut) as cluster:
            first, _ = sent(cluster, topic)
            there = Counter(texts_of(broker, topic))
            assert first <= there.total(), step
            assert there <= Counter(texts), step
            is_over = cluster.is_over
        broker.faults.lift_all()
        with Unlucky(broker) as cluster:
            second, found = sent(cluster, topic)
        assert Counter(texts_of(broker, topic)) == Counter(texts), step
        assert first + second <= len(texts) <= first + second + found, step
        if is_over:
            break
    assert step > 5 * len(GROUPS)
