"""What is left of transactions that are committed, and of those that are not."""

from __future__ import annotations

import uuid

from tests.clients.transactions.coordinator import (
    committed_offset,
    pending_or_committed,
    written_batches,
)
from tests.clients.transactions.play import Play


def test_what_is_committed_is_read_and_what_is_aborted_is_not(play: Play) -> None:
    (partition,) = play.topic()
    producer = play.producer()
    for number in range(5):
        producer.begin()
        producer.send(partition, f"{number}a", f"{number}b")
        producer.do("abort" if number % 2 else "commit")
    reader = play.reader([partition])
    reader.wait_for(partition, "0a", "0b", "2a", "2b", "4a", "4b")


def test_partitions_of_several_topics_have_one_outcome(play: Play) -> None:
    partitions = play.topic(2) + play.topic(1)
    producer = play.producer()
    for word, outcome in (("first", "commit"), ("second", "abort"), ("third", "commit")):
        producer.begin()
        for each in partitions:
            producer.send(each, word)
        assert producer.described().partitions == set(partitions)
        producer.do(outcome)
    reader = play.reader(partitions)
    for each in partitions:
        reader.wait_for(each, "first", "third")


def test_a_transaction_may_be_empty(play: Play) -> None:
    (partition,) = play.topic()
    producer = play.producer()
    for outcome in ("commit", "abort", "commit"):
        producer.begin()
        producer.do(outcome)
    assert written_batches(play.address, partition) == []
    producer.begin()
    producer.send(partition, "there")
    producer.commit()
    play.reader([partition]).wait_for(partition, "there")


def test_offsets_count_if_the_transaction_is_committed(play: Play) -> None:
    play.kind.needs_to("commit offsets of its choice")
    (partition,) = play.topic()
    producer, group = play.producer(), f"group-{uuid.uuid4()}"
    for offset, outcome, after in ((1, "commit", 1), (2, "abort", 1), (3, "commit", 3)):
        producer.begin()
        producer.send(partition, str(offset))
        producer.offsets(group, {partition: offset})
        assert pending_or_committed(play.address, group, partition) is None
        producer.do(outcome)
        assert committed_offset(play.address, group, partition) == after
    play.reader([partition]).wait_for(partition, "1", "3")


def test_a_transaction_may_have_nothing_but_offsets(play: Play) -> None:
    play.kind.needs_to("commit offsets of its choice")
    first, second = play.topic(2)
    producer, group = play.producer(), f"group-{uuid.uuid4()}"
    for offset, outcome, after in ((1, "abort", -1), (2, "commit", 2), (3, "abort", 2)):
        producer.begin()
        producer.offsets(group, {first: offset, second: offset})
        producer.do(outcome)
        for each in (first, second):
            assert committed_offset(play.address, group, each) == after
    assert written_batches(play.address, first) == []
