"""What members say of records, and what becomes of these."""

from __future__ import annotations

from tests.clients.groups.programs.member import Partition
from tests.clients.queues.play import Outcome, Play, deliveries, values


def begin(play: Play, *written: str) -> Partition:
    """A partition with these records, and a group that begins with the first."""
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, *written)
    return partition


def test_what_is_accepted_does_not_come_again(play: Play) -> None:
    partition = begin(play, "a", "b", "c")
    first, second = play.member(partition.topic), play.member(partition.topic)
    records = first.poll()
    assert deliveries(records) == {"a": 1, "b": 1, "c": 1}
    first.settle(records)
    play.wait_until_left(partition, 0)
    second.poll_nothing()
    play.write(partition, "d")
    assert values(play.gather(1, first, second)) == ["d"]


def test_what_is_released_is_delivered_again(play: Play) -> None:
    partition = begin(play, "a", "b", "c")
    first, second = play.member(partition.topic), play.member(partition.topic)
    a, b, c = first.poll()
    first.acknowledge([a])
    first.acknowledge([b], "release")
    first.acknowledge([c])
    assert first.commit() == {partition: None}
    again = play.gather(1, first, second)
    assert deliveries(again) == {"b": 2}
    play.wait_until_left(partition, 0)


def test_what_is_rejected_does_not_come_again(play: Play) -> None:
    partition = begin(play, "a", "b", "c")
    member = play.member(partition.topic)
    records = member.poll()
    member.acknowledge([records[0], records[2]])
    member.settle([records[1]], "reject")
    play.wait_until_left(partition, 0)
    play.write(partition, "d")
    assert values(member.gather(1)) == ["d"]


def test_what_is_released_comes_before_what_is_new(play: Play) -> None:
    partition = begin(play, "a", "b")
    member = play.member(partition.topic)
    member.settle(member.poll(), "release")
    play.write(partition, "c")
    found = member.gather(3)
    assert [(each.value, each.deliveries) for each in found] == [("a", 2), ("b", 2), ("c", 1)]


def test_acknowledgements_go_with_the_next_poll(play: Play) -> None:
    partition = begin(play, "a", "b")
    member = play.member(partition.topic)
    member.acknowledge(member.poll())
    play.write(partition, "c")
    records = member.poll()
    assert values(records) == ["c"]
    play.wait_until_left(partition, 1)
    member.settle(records)


def test_the_next_poll_accepts_all_of_the_last(play: Play) -> None:
    partition = begin(play, "a", "b")
    member = play.member(partition.topic, is_explicit=False)
    assert values(member.poll()) == ["a", "b"]
    play.write(partition, "c")
    assert values(member.poll()) == ["c"]
    play.wait_until_left(partition, 1)
    member.poll_nothing()
    play.wait_until_left(partition, 0)


def test_a_commit_accepts_all_of_the_last_poll(play: Play) -> None:
    partition = begin(play, "a", "b")
    member = play.member(partition.topic, is_explicit=False)
    member.poll()
    assert member.commit() == {partition: None}
    play.wait_until_left(partition, 0)


def test_who_commits_later_is_told_what_became_of_it(play: Play) -> None:
    play.kind.needs_to("be told later what became of what it said")
    partition = begin(play, "a", "b", "c")
    member = play.member(partition.topic)
    records = member.poll()
    member.acknowledge(records[:2])
    member.acknowledge(records[2:], "reject")
    member.do("commit_later")
    play.wait_until_left(partition, 0)
    member.poll_nothing()
    assert told(member.outcomes) == {
        (partition, 0, None),
        (partition, 1, None),
        (partition, 2, None),
    }


def test_who_waits_for_a_commit_is_told_later_too(play: Play) -> None:
    play.kind.needs_to("be told later what became of what it said")
    partition = begin(play, "a", "b")
    member = play.member(partition.topic)
    member.settle(member.poll())
    member.poll_nothing()
    assert told(member.outcomes) == {(partition, 0, None), (partition, 1, None)}


def test_nothing_is_committed_where_there_is_nothing(play: Play) -> None:
    partition = begin(play)
    member = play.member(partition.topic)
    member.poll_nothing()
    assert member.commit() == {}


def told(outcomes: list[Outcome]) -> set[tuple[Partition, int, str | None]]:
    return {(each.partition, offset, each.error) for each in outcomes for offset in each.offsets}
