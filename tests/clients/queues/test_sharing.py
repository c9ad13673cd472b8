"""Records of a partition are shared by the members of a group: each goes to one of them."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from tests.clients.queues.play import Play, values
from tests.clients.queues.topics import write_batch
from tests.clients.stored import create_partitions, wait_until_known


def test_members_of_one_partition_hold_different_records(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    # There is enough for all, even if a client fetches once more before it is polled.
    for number in range(18):
        play.write(partition, str(number))
    members = [play.member(partition.topic, records_max=3) for _ in range(3)]
    held = [member.poll() for member in members]
    assert [len(records) for records in held] == [3, 3, 3]
    for member, records in zip(members, held, strict=True):
        member.settle(records)
    taken = [*chain(*held), *play.gather(9, *members)]
    assert sorted(values(taken), key=int) == [str(number) for number in range(18)]
    assert {each.deliveries for each in taken} == {1}
    play.wait_until_left(partition, 0)


def test_a_group_with_more_members_than_partitions_has_work_for_all(play: Play) -> None:
    partitions = play.topic(2)
    play.configure(share_auto_offset_reset="earliest")
    members = [play.member(partitions[0].topic, records_max=2) for _ in range(4)]
    for member in members:
        member.poll_nothing()
    play.wait_until_assigned({partitions[0]}, {partitions[0]}, {partitions[1]}, {partitions[1]})
    for number in range(8):
        for each in partitions:
            play.write(each, f"{each.number}-{number}")
    held = [member.poll() for member in members]
    found = Counter(value for records in held for value in values(records))
    assert all(held)
    assert set(found.values()) == {1}
    for member, records in zip(members, held, strict=True):
        member.settle(records)


def test_workers_take_each_record_once(play: Play) -> None:
    partitions = play.topic(2)
    play.configure(share_auto_offset_reset="earliest")
    workers = [play.member(partitions[0].topic, records_max=5) for _ in range(3)]
    for each in workers:
        each.work()
    written = []
    for number in range(60):
        written.append(f"value {number}")
        play.write(partitions[number % 2], written[-1])
    everybody = "all is accepted"
    play.wait_until(lambda: sum(len(each.kept) for each in workers) == len(written), everybody)
    kept = [value for each in workers for value in values(each.kept)]
    assert sorted(kept) == sorted(written)
    assert sorted(value for each in workers for value in values(each.taken)) == sorted(written)
    for partition in partitions:
        play.wait_until_left(partition, 0)


def test_members_read_several_topics(play: Play) -> None:
    partitions = play.topic(2) + play.topic(1)
    play.configure(share_auto_offset_reset="earliest")
    for each in partitions:
        play.write(each, f"{each.topic} {each.number}")
    member = play.member(partitions[0].topic, partitions[2].topic)
    found = member.gather(3)
    assert sorted(values(found)) == sorted(f"{each.topic} {each.number}" for each in partitions)
    for each in partitions:
        play.wait_until_left(each, 0)


def test_members_may_want_different_topics(play: Play) -> None:
    (first,), (second,) = play.topic(), play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(first, "first")
    play.write(second, "second")
    members = [play.member(each.topic) for each in (first, second)]
    assert [values(each.gather(1)) for each in members] == [["first"], ["second"]]
    play.wait_until_assigned({first}, {second})


def test_groups_do_not_notice_each_other(play: Play) -> None:
    (partition,) = play.topic()
    others = Play(play.address, play.kind, play.processes)
    for each in (play, others):
        each.configure(share_auto_offset_reset="earliest")
    play.write(partition, "one")
    mine, theirs = play.member(partition.topic), others.member(partition.topic)
    held = mine.poll()
    assert values(held) == values(theirs.gather(1)) == ["one"]
    others.end()
    mine.settle(held)


def test_partitions_are_added_while_members_work(play: Play) -> None:
    (first,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    members = [play.member(first.topic) for _ in range(2)]
    play.write(first, "before")
    assert values(members[0].gather(1)) == ["before"]
    create_partitions(play.address, first.topic, 3)
    wait_until_known(play.address, first.topic, 3)
    for number in range(3):
        # Not by a producer that knows of one partition.
        where = first._replace(number=number)
        write_batch(play.address, where, [(None, f"after {number}")])
    for each in members:
        each.work()
    expected = {"before", *(f"after {number}" for number in range(3))}
    seen = {"before"}
    play.wait_until(
        lambda: expected <= seen | {value for each in members for value in values(each.kept)},
        "all partitions are read",
    )
