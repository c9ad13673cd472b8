"""Where a group begins to read a partition."""

from __future__ import annotations

import itertools
import time

from tests.clients.queues.play import MOMENT_SECONDS, Play, values

HOUR_MS = 3_600_000


def test_earliest_is_the_first_record_that_there_is(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "old", "older")
    member = play.member(partition.topic)
    assert values(member.gather(2)) == ["old", "older"]


def test_latest_is_what_comes_when_the_group_has_begun(play: Play) -> None:
    """Which is the default. When that is nobody is told, so that it is written until one comes."""
    (partition,) = play.topic()
    play.write(partition, "old")
    member = play.member(partition.topic)
    found, written = [], []
    for number in itertools.count():
        written.append(str(number))
        play.write(partition, written[-1])
        found = member.poll(MOMENT_SECONDS)
        if found:
            break
    member.settle(found)
    written.append("last")
    play.write(partition, "last")
    found += member.gather(1)
    assert values(found) == written[-len(found) :]


def test_a_duration_is_how_far_back_the_first_record_is(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="by_duration:PT30M")
    now_ms = int(time.time() * 1000)
    play.write(partition, "two hours ago", timestamp_ms=now_ms - 2 * HOUR_MS)
    play.write(partition, "one hour ago", timestamp_ms=now_ms - HOUR_MS)
    play.write(partition, "now", timestamp_ms=now_ms)
    member = play.member(partition.topic)
    assert values(member.gather(1)) == ["now"]
    play.wait_until_left(partition, 0)


def test_a_group_that_has_begun_stays_where_it_is(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    play.write(partition, "a")
    first = play.member(partition.topic)
    assert values(first.gather(1)) == ["a"]
    first.close()
    play.configure(share_auto_offset_reset="latest")
    play.write(partition, "b")
    assert values(play.member(partition.topic).gather(1)) == ["b"]
