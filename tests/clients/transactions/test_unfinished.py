"""Transactions that a broker has to end when it comes back from a kill."""

from __future__ import annotations

import uuid

import pytest

from tests.clients.mortal import MortalBroker
from tests.clients.transactions.coordinator import committed_offset
from tests.clients.transactions.play import SHORT_MS, Play


@pytest.fixture
def address(mortal: MortalBroker) -> str:
    return mortal.address


def test_what_was_acknowledged_as_committed_is_there_after_a_kill(
    play: Play, mortal: MortalBroker
) -> None:
    """Its outcome is on the log, its markers may not be there yet."""
    partitions = play.topic(3)
    producer, group = play.producer(), f"group-{uuid.uuid4()}"
    kept: list[str] = []
    for number in range(3):
        producer.begin()
        for each in partitions:
            producer.send(each, f"{number}")
        if play.kind.can("commit offsets of its choice"):
            producer.offsets(group, {partitions[0]: number})
        producer.commit()
        mortal.kill()
        mortal.start()
        kept.append(f"{number}")
        reader = play.reader(partitions)
        for each in partitions:
            reader.wait_for(each, *kept)
        if play.kind.can("commit offsets of its choice"):
            assert committed_offset(play.address, group, partitions[0]) == number
        reader.close()


def test_what_nobody_ends_is_aborted_after_a_kill(play: Play, mortal: MortalBroker) -> None:
    (partition,) = play.topic()
    abandoned = play.producer(timeout_ms=SHORT_MS)
    abandoned.begin()
    abandoned.send(partition, "lost")
    abandoned.kill()
    mortal.kill()
    mortal.start()
    play.write(partition, "kept")
    play.reader([partition]).wait_for(partition, "kept")
