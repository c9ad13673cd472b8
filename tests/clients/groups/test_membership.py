"""Who has which partitions. How they change hands is in test_deliveries."""

from __future__ import annotations

from tests.clients.groups.group import Groups


def test_members_may_be_more_than_partitions(groups: Groups) -> None:
    with groups.new(partitions=2) as group:
        members = [group.join() for _ in range(3)]
        group.wait_until_shared_by(*members)
        owner = max(members, key=lambda each: len(each.partitions))
        owner.leave()
        group.wait_until_shared_by(*(each for each in members if each is not owner))
        assert group.failures == []


def test_partitions_of_several_topics_are_shared(groups: Groups) -> None:
    with groups.new(partitions=2, topics=3) as group:
        first, second = group.join(), group.join()
        group.wait_until_shared_by(first, second)
        group.wait_until_read(group.produce(2))
        assert group.failures == []
