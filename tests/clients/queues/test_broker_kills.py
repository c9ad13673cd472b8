"""Brokers that stop, or are killed, while members work."""

from __future__ import annotations

import pytest

from tests.clients.mortal import MortalBroker
from tests.clients.queues.play import Member, Play, deliveries, values

ROUNDS = 3
RECORDS = 40


@pytest.fixture
def address(mortal: MortalBroker) -> str:
    return mortal.address


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_nothing_is_lost_and_nothing_accepted_comes_back(
    play: Play, mortal: MortalBroker, how: str
) -> None:
    partitions = play.topic(2)
    play.configure(share_auto_offset_reset="earliest", share_record_lock_duration_ms="1000")
    workers = [play.member(partitions[0].topic, records_max=3) for _ in range(3)]
    for worker in workers:
        worker.work()
    written: list[str] = []
    for _ in range(ROUNDS):
        before = count_kept(workers)
        for number in range(RECORDS):
            written.append(f"value {len(written)}")
            play.write(partitions[number % 2], written[-1])
        wait_for_work(play, workers, before)
        (mortal.kill if how == "kill" else mortal.stop)()
        mortal.start()
    for partition in partitions:
        play.wait_until_left(partition, 0)
    play.wait_until(lambda: taken(workers) == set(written), "each record was taken by somebody")


def wait_for_work(play: Play, workers: list[Member], before: int) -> None:
    play.wait_until(lambda: count_kept(workers) > before, "somebody works")


def count_kept(workers: list[Member]) -> int:
    return sum(len(each.kept) for each in workers)


def taken(workers: list[Member]) -> set[str]:
    return {value for each in workers for value in values(each.taken)}


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_is_where_it_was_when_the_broker_is_back(
    play: Play, mortal: MortalBroker, how: str
) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a", "b", "c", "d")
    member = play.member(partition.topic)
    records = member.poll()
    member.acknowledge(records[:1])
    member.acknowledge(records[1:2], "release")
    member.acknowledge(records[2:3], "reject")
    member.acknowledge(records[3:], "release")
    assert member.commit() == {partition: None}
    (mortal.kill if how == "kill" else mortal.stop)()
    mortal.start()
    again = member.poll()
    assert deliveries(again) == {"b": 2, "d": 2}
    member.settle(again)
    play.wait_until_left(partition, 0)


def test_what_is_held_when_the_broker_is_killed_is_delivered_again(
    play: Play, mortal: MortalBroker
) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a", "b")
    holder = play.member(partition.topic)
    held = holder.poll()
    assert deliveries(held) == {"a": 1, "b": 1}
    mortal.kill()
    holder.kill()  # Its client would fetch them again before it is polled.
    mortal.start()
    other = play.member(partition.topic)
    again = other.poll()
    assert values(again) == ["a", "b"]
    other.settle(again)
