"""Partitions that come while a group is at work."""

from __future__ import annotations

from tests.clients.groups.group import Groups


def test_new_partitions_are_shared_and_read_from_their_start(groups: Groups) -> None:
    with groups.new(partitions=2) as group:
        first, second = group.join(), group.join()
        group.wait_until_shared_by(first, second)
        group.widen(4)
        sent = group.produce(3)
        group.wait_until_shared_by(first, second)
        group.wait_until_read(sent)
        first.leave()
        second.leave()
        assert group.failures == []
        assert group.read_more_than_once() == {}
