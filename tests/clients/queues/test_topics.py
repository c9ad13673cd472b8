"""Topics that change while a group reads them."""

from __future__ import annotations

from tests.clients.queues.play import Play, values
from tests.clients.queues.topics import (
    delete_records,
    delete_topic,
    wait_until_compacted,
    write_batch,
)
from tests.clients.stored import create_topic, wait_until_known

SEGMENT_MS = 300


def test_a_topic_that_is_deleted_and_made_anew_is_another(play: Play) -> None:
    play.kind.needs_to("go on with a topic that is made anew")
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a", "b", "c")
    member = play.member(partition.topic)
    assert values(member.gather(3)) == ["a", "b", "c"]
    delete_topic(play.address, partition.topic)
    play.forget_what_is_done()
    create_topic(play.address, partition.topic)
    wait_until_known(play.address, partition.topic, 1)
    play.write(partition, "new")
    assert values(member.gather(1)) == ["new"]
    play.wait_until_left(partition, 0)


def test_a_topic_may_come_later_than_its_members(play: Play) -> None:
    (there,) = play.topic()
    later = f"{there.topic}-later"
    play.configure(share_auto_offset_reset="earliest")
    play.write(there, "there")
    member = play.member(there.topic, later)
    assert values(member.gather(1)) == ["there"]
    # A topic is made by whoever asks for it first: a client may have, or this does.
    write_batch(play.address, there._replace(topic=later), [(None, "later")])
    assert values(member.gather(1)) == ["later"]


def test_holes_in_a_compacted_topic_are_passed_over(play: Play) -> None:
    """Of each key the last record is left; the last segment is not compacted."""
    (partition,) = play.topic(
        cleanup_policy="compact",
        segment_ms=str(SEGMENT_MS),
        min_cleanable_dirty_ratio="0.0",
        max_compaction_lag_ms="100",
        min_compaction_lag_ms="0",
    )
    play.configure(share_auto_offset_reset="earliest")
    for number in range(9):
        write_batch(play.address, partition, [(str(number % 3), str(number))])
    play.pass_time(SEGMENT_MS / 1000)
    write_batch(play.address, partition, [("tail", "tail")])
    wait_until_compacted(play.address, partition, [6, 7, 8, 9])
    member = play.member(partition.topic)
    found = member.gather(4)
    assert [each.offset for each in found] == [6, 7, 8, 9]


def test_records_that_are_deleted_are_passed_over(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a", "b")
    member = play.member(partition.topic)
    held = member.poll()
    member.settle(held, "release")
    play.write(partition, "c")
    delete_records(play.address, partition, before=1)
    found = member.gather(2)
    assert values(found) == ["b", "c"]
    play.wait_until_left(partition, 0)
