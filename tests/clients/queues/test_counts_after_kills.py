"""A delivery is written down before it is made, so that it counts after a kill.

Apache Kafka writes of a delivery when it is acknowledged, and forgets those that are not.
"""

from __future__ import annotations

import pytest

from tests.clients.mortal import MortalBroker
from tests.clients.queues.play import Play, deliveries


@pytest.fixture
def address(mortal: MortalBroker) -> str:
    return mortal.address


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
