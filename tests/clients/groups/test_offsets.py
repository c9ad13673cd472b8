"""Where a group goes on reading: where it has committed, and nowhere else."""

from __future__ import annotations

from tests.clients.groups.coordinator import committed_offsets
from tests.clients.groups.group import SHORT_SESSION_MS, Groups


def test_a_group_goes_on_where_its_last_member_left(groups: Groups) -> None:
    with groups.new(partitions=2) as group:
        before = group.produce(5)
        first = group.join()
        group.wait_until_read(before)
        first.leave()
        assert committed_offsets(group.address, group.name) == dict.fromkeys(group.partitions, 5)
        after = group.produce(3)
        second = group.join()
        group.wait_until_read(after)
        second.leave()
        assert sorted(each.value for each in second.reads) == sorted(after)
        assert committed_offsets(group.address, group.name) == dict.fromkeys(group.partitions, 8)
        assert group.failures == []


def test_only_what_a_killed_member_has_not_committed_is_read_again(groups: Groups) -> None:
    groups.kind.needs_to("commit later than it reads")
    with groups.new(partitions=2, session_ms=SHORT_SESSION_MS) as group:
        committed = group.produce(5)
        first = group.join()
        group.wait_until_read(committed)
        first.commit()
        assert first.committed == dict.fromkeys(group.partitions, 5)
        uncommitted = group.produce(3)
        group.wait_until_read(uncommitted)
        first.kill()
        second = group.join()
        group.wait_until(lambda: len(second.reads) >= len(uncommitted), "all is read again")
        second.leave()
        assert sorted(each.value for each in second.reads) == sorted(uncommitted)


def test_groups_do_not_know_of_each_other(groups: Groups) -> None:
    with groups.new(partitions=2) as one, groups.beside(one) as other:
        sent = one.produce(4)
        for group in (one, other):
            member = group.join()
            group.wait_until_read(sent)
            member.leave()
            assert group.read_more_than_once() == {}
            assert group.failures == []
