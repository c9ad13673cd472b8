"""A broker that is killed in the middle of a transaction, or when one is complete."""

from __future__ import annotations

import uuid

import pytest

from tests.clients.mortal import MortalBroker
from tests.clients.transactions.coordinator import committed_offset
from tests.clients.transactions.play import Play


@pytest.fixture
def address(mortal: MortalBroker) -> str:
    return mortal.address


def test_a_transaction_goes_on_after_a_kill(play: Play, mortal: MortalBroker) -> None:
    first, second = play.topic(2)
    producer, group = play.producer(), f"group-{uuid.uuid4()}"
    producer.begin()
    producer.send(first, "before")
    if play.kind.can("commit offsets of its choice"):
        producer.offsets(group, {second: 7})
    mortal.kill()
    mortal.start()
    producer.send(first, "after")
    producer.send(second, "after")
    producer.commit()
    reader = play.reader([first, second])
    reader.wait_for(first, "before", "after")
    reader.wait_for(second, "after")
    if play.kind.can("commit offsets of its choice"):
        assert committed_offset(play.address, group, second) == 7


def test_what_is_complete_is_there_after_a_kill(play: Play, mortal: MortalBroker) -> None:
    partitions = play.topic(3)
    producer, group = play.producer(), f"group-{uuid.uuid4()}"
    producer.begin()
    for each in partitions:
        producer.send(each, "kept")
    if play.kind.can("commit offsets of its choice"):
        producer.offsets(group, {partitions[0]: 5})
    producer.commit()
    play.wait_until(lambda: producer.described().state == "CompleteCommit", "it is complete")
    mortal.kill()
    mortal.start()
    reader = play.reader(partitions)
    for each in partitions:
        reader.wait_for(each, "kept")
    if play.kind.can("commit offsets of its choice"):
        assert committed_offset(play.address, group, partitions[0]) == 5
