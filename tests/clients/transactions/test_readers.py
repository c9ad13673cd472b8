"""Readers that go on reading while transactions are open, aborted and committed."""

from __future__ import annotations

from tests.clients.groups.programs.member import Partition
from tests.clients.transactions.play import Play, Reader


def test_readers_see_what_is_committed_when_it_is(play: Play) -> None:
    partition, other = play.topic(2)
    reader = play.reader([partition, other])
    of_all = play.reader([partition, other], "read_uncommitted")
    first, second = play.producer(), play.producer()

    first.begin()
    first.send(partition, "a1", "a2")
    of_all.wait_for(partition, "a1", "a2")
    has_read_no_more(play, reader, partition, other)

    second.begin()
    second.send(partition, "b1")
    second.commit()
    of_all.wait_for(partition, "a1", "a2", "b1")
    # What was committed after an open transaction has begun waits for that one.
    has_read_no_more(play, reader, partition, other)

    first.abort()
    reader.wait_for(partition, "b1")

    second.begin()
    second.send(partition, "b2")
    first.begin()
    first.send(partition, "a3")
    second.abort()
    of_all.wait_for(partition, "a1", "a2", "b1", "b2", "a3")
    has_read_no_more(play, reader, partition, other, "b1")

    first.commit()
    reader.wait_for(partition, "b1", "a3")
    play.write(partition, "last")
    reader.wait_for(partition, "b1", "a3", "last")
    of_all.wait_for(partition, "a1", "a2", "b1", "b2", "a3", "last")


def has_read_no_more(
    play: Play, reader: Reader, partition: Partition, other: Partition, *values: str
) -> None:
    """Than these, and it has just read something of another partition, so that it is not late."""
    marks = [*reader.values[other], f"mark {len(reader.values[other])}"]
    play.write(other, marks[-1])
    reader.wait_for(other, *marks)
    assert reader.values[partition] == list(values)


def test_a_reader_that_comes_late_passes_over_what_was_aborted(play: Play) -> None:
    """Of many transactions, in batches of several records, some with two producers at once."""
    (partition,) = play.topic()
    first, second = play.producer(), play.producer()
    expected = []
    for number in range(12):
        values = [f"{number}-{each}" for each in range(4)]
        for producer in (first, second):
            producer.begin()
        first.send(partition, *values[:2])
        second.send(partition, values[2])
        first.send(partition, values[3])
        fate, others_fate = number % 3 == 0, number % 2 == 0
        first.do("commit" if fate else "abort")
        second.do("commit" if others_fate else "abort")
        expected += [
            value
            for value, is_kept in zip(values, (fate, fate, others_fate, fate), strict=True)
            if is_kept
        ]
    play.reader([partition]).wait_for(partition, *expected)
