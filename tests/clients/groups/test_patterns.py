"""Subscriptions to a pattern, which clients match in the classic protocol, and else brokers."""

from __future__ import annotations

from tests.clients.groups.group import Groups


def test_topics_that_match_are_read_and_those_that_come_later(groups: Groups) -> None:
    groups.kind.needs_to("follow a pattern to new topics")
    with groups.new(partitions=2, topics=2) as group:
        pattern = rf"{group.name}-topic-[0-9]+"
        first, second = group.join(pattern=pattern), group.join(pattern=pattern)
        group.wait_until_shared_by(first, second)
        group.wait_until_read(group.produce(2))
        for member in (first, second):
            # aiokafka cannot do so any more when its subscription has changed.
            member.commit()
        group.create_topic(f"{group.name}-topic-of-others", 2, is_wanted=False)
        group.create_topic(f"{group.name}-topic-7", 2)
        group.wait_until_shared_by(first, second)
        group.wait_until_read(group.produce(2))
        first.leave()
        second.leave()
        assert group.failures == []
        assert group.read_more_than_once() == {}
