"""How often a record is read by a group: once, or once more where somebody dies."""

from __future__ import annotations

from tests.clients.groups.coordinator import committed_offsets
from tests.clients.groups.group import SHORT_SESSION_MS, Groups


def test_every_record_is_read_once_while_members_come_and_leave(groups: Groups) -> None:
    with groups.new(partitions=6) as group:
        with group.traffic():
            first = group.join()
            group.wait_until_shared_by(first)
            second = group.join()
            group.wait_until_shared_by(first, second)
            third = group.join()
            group.wait_until_shared_by(first, second, third)
            first.leave()
            group.wait_until_shared_by(second, third)
            third.leave()
            group.wait_until_shared_by(second)
        group.wait_until_read(group.sent)
        second.leave()
        assert group.failures == []
        assert group.read_more_than_once() == {}
        assert sum(committed_offsets(group.address, group.name).values()) == len(group.sent)


def test_every_record_is_read_though_members_are_killed(groups: Groups) -> None:
    with groups.new(partitions=6, session_ms=SHORT_SESSION_MS) as group:
        with group.traffic():
            first, second, third = group.join(), group.join(), group.join()
            group.wait_until_shared_by(first, second, third)
            third.kill()
            second.kill()
            group.wait_until_shared_by(first)
        group.wait_until_read(group.sent)
