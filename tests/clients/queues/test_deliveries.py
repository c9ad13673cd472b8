"""How often a record is delivered, and where it goes when that was too often."""

from __future__ import annotations

from tests.clients.queues.play import Play, deliveries, values

LIMIT = 2


def test_a_record_is_given_up_when_it_was_delivered_too_often(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest", share_delivery_count_limit=str(LIMIT))
    play.write(partition, "a", "b")
    member = play.member(partition.topic)
    for count in range(1, LIMIT + 1):
        records = member.poll()
        assert deliveries(records) == {"a": count, "b": count}
        member.settle(records, "release")
    play.wait_until_left(partition, 0)
    play.write(partition, "c")
    assert values(member.gather(1)) == ["c"]


def test_locks_that_run_out_count(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(
        share_auto_offset_reset="earliest",
        share_delivery_count_limit=str(LIMIT),
        share_record_lock_duration_ms="1000",
    )
    play.write(partition, "a")
    members = [play.member(partition.topic) for _ in range(LIMIT)]
    assert [deliveries(each.poll()) for each in members] == [{"a": 1}, {"a": 2}]
    play.wait_until_left(partition, 0)
