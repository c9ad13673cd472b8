"""How long a record is a member's alone, and what becomes of it when the member is gone."""

from __future__ import annotations

from tests.clients.groups.programs.member import Partition
from tests.clients.queues.play import Play, deliveries, values

SHORT_MS = 3_000


def begin(play: Play, *written: str, lock_ms: int | None = None) -> Partition:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    if lock_ms is not None:
        play.configure(share_record_lock_duration_ms=str(lock_ms))
    play.write(partition, *written)
    return partition


def test_what_is_held_for_too_long_goes_to_another(play: Play) -> None:
    partition = begin(play, "a", "b", lock_ms=SHORT_MS)
    slow, other = play.member(partition.topic), play.member(partition.topic)
    held = slow.poll()
    assert deliveries(held) == {"a": 1, "b": 1}
    again = other.poll()
    assert deliveries(again) == {"a": 2, "b": 2}
    slow.acknowledge(held)
    assert slow.commit() == {partition: play.kind.invalid_state}
    other.settle(again)
    play.wait_until_left(partition, 0)


def test_a_member_may_ask_for_more_time(play: Play) -> None:
    play.kind.needs_to("ask for more time")
    partition = begin(play, "a", "b", lock_ms=SHORT_MS)
    slow, other = play.member(partition.topic), play.member(partition.topic)
    held = slow.poll()
    other.start("poll", seconds=2 * SHORT_MS / 1000)
    for _ in range(4):
        slow.renew(held)
        play.pass_time(SHORT_MS / 2000)
    slow.settle(held)
    assert other.answer("poll")["records"] == []
    play.wait_until_left(partition, 0)


def test_what_a_killed_member_had_goes_to_another(play: Play) -> None:
    partition = begin(play, "a", "b")
    killed, other = play.member(partition.topic), play.member(partition.topic)
    held = killed.poll()
    assert deliveries(held) == {"a": 1, "b": 1}
    killed.kill()
    again = other.poll()
    assert values(again) == ["a", "b"]
    assert deliveries(again) == {"a": 2, "b": 2}
    other.settle(again)


def test_what_a_frozen_member_had_goes_to_another(play: Play) -> None:
    partition = begin(play, "a", lock_ms=SHORT_MS)
    play.configure(share_session_timeout_ms="1000")
    frozen, other = play.member(partition.topic), play.member(partition.topic)
    held = frozen.poll()
    frozen.freeze()
    again = other.poll()
    assert values(again) == ["a"]
    # A fetch of the frozen one may wait at the broker, and be handed it once more before.
    assert again[0].deliveries in (2, 3)
    other.settle(again, attempts=3)
    play.wait_until_assigned({partition})
    frozen.thaw()
    frozen.acknowledge(held)
    frozen.start("commit")  # Too late to count, whatever it hears.
    frozen.answer("commit")
    play.write(partition, "b")
    assert values(play.gather(1, frozen, other)) == ["b"]


def test_a_member_that_closes_gives_back_what_it_has(play: Play) -> None:
    partition = begin(play, "a", "b", "c")
    leaver = play.member(partition.topic)
    held = leaver.poll()
    leaver.acknowledge(held[:1])
    leaver.close()
    other = play.member(partition.topic)
    again = other.poll()
    assert deliveries(again) == {"b": 2, "c": 2}
    other.settle(again)
    play.wait_until_left(partition, 0)


def test_a_member_that_closes_has_not_accepted_what_it_polled_last(play: Play) -> None:
    partition = begin(play, "a", "b")
    leaver = play.member(partition.topic, is_explicit=False)
    assert values(leaver.poll()) == ["a", "b"]
    leaver.close()
    other = play.member(partition.topic)
    again = other.poll()
    assert deliveries(again) == {"a": 2, "b": 2}
    other.settle(again)


def test_a_group_goes_on_where_its_last_member_was(play: Play) -> None:
    partition = begin(play, "a", "b", "c")
    first = play.member(partition.topic)
    records = first.poll()
    first.acknowledge([records[0], records[2]])
    first.acknowledge([records[1]], "release")
    assert first.commit() == {partition: None}
    first.close()
    second = play.member(partition.topic)
    again = second.poll()
    assert deliveries(again) == {"b": 2}
    second.settle(again)
