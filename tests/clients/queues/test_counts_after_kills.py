"""A delivery is written down before it is made, so that it counts after a kill.

Apache Kafka writes of a delivery when it is acknowledged, and forgets those that are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.groups.processes import Processes
from tests.clients.queues.kinds import Kind
from tests.clients.queues.play import Play, deliveries
from tests.clients.transactions.brokers import MortalBroker


@pytest.fixture
def play(mortal: MortalBroker, kind: Kind, processes: Processes) -> Iterator[Play]:
    play = Play(mortal.address, kind, processes)
    yield play
    play.end()


def test_what_is_held_when_the_broker_is_killed_was_delivered(
    play: Play, mortal: MortalBroker
) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a", "b")
    holder = play.member(partition.topic)
    held = holder.poll()
    assert deliveries(held) == {"a": 1, "b": 1}
    mortal.kill()
    holder.kill()  # Its client would fetch them again before it is polled.
    mortal.start()
    other = play.member(partition.topic)
    again = other.poll()
    assert deliveries(again) == {"a": 2, "b": 2}
    other.settle(again)
