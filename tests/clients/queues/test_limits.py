"""How many records a member gets at once."""

from __future__ import annotations

from tests.clients.queues.play import Play, values
from tests.clients.queues.topics import write_batch


def test_batches_are_not_split_for_a_limit_that_is_a_hint(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    write_batch(play.address, partition, [(None, str(number)) for number in range(10)])
    play.write(partition, "next")
    member = play.member(partition.topic, records_max=3)
    first = member.poll()
    assert values(first) == [str(number) for number in range(10)]
    member.settle(first)
    assert values(member.gather(1)) == ["next"]


def test_a_limit_may_be_strict(play: Play) -> None:
    play.kind.needs_to("limit its records strictly")
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    write_batch(play.address, partition, [(None, str(number)) for number in range(10)])
    members = [play.member(partition.topic, records_max=4, is_strict=True) for _ in range(2)]
    polled: list[list[str]] = []
    while sum(map(len, polled)) < 10:
        member, records = play.poll(*members)
        polled.append(values(records))
        member.settle(records)
    assert sorted(polled) == [list("0123"), list("4567"), list("89")]
    play.wait_until_left(partition, 0)


def test_a_partition_has_so_many_locks_and_no_more(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest", share_partition_max_record_locks="100")
    for number in range(11):
        write_batch(play.address, partition, [(None, f"{number}-{each}") for each in range(10)])
    first, second = play.member(partition.topic), play.member(partition.topic)
    held = first.poll()
    assert len(held) == 100
    second.poll_nothing()
    first.settle(held)
    assert len(play.gather(10, first, second)) == 10
