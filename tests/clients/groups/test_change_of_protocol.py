"""A group whose members change the protocol one by one, and back, without a stop (KIP-848)."""

from __future__ import annotations

import pytest

from tests.clients.groups.coordinator import group_type
from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import CONFLUENT, CONFLUENT_CONSUMER, Kind


# Not librdkafka's cooperative members: Kafka itself, asked to change the protocol of such a group,
# now and then gives their partitions to the new member while they have them, or says that there is
# no such group.
@pytest.mark.parametrize(
    ("kind", "newer"), [(CONFLUENT, CONFLUENT_CONSUMER)], ids=lambda kind: kind.name
)
def test_a_group_goes_to_the_consumer_protocol_and_back(groups: Groups, newer: Kind) -> None:
    go_to_the_consumer_protocol_and_back(groups, newer)


def go_to_the_consumer_protocol_and_back(groups: Groups, newer: Kind) -> None:
    with groups.new(partitions=6) as group:
        with group.traffic():
            old = [group.join(), group.join()]
            group.wait_until_shared_by(*old)
            assert group_type(group.address, group.name) == "classic"
            new = group.join(newer)
            group.wait_until_shared_by(*old, new)
            assert group_type(group.address, group.name) == "consumer"
            for left, member in enumerate(old, start=1):
                member.leave()
                group.wait_until_shared_by(*old[left:], new)
            again = group.join()
            group.wait_until_shared_by(new, again)
            assert group_type(group.address, group.name) == "consumer"
            new.leave()
            group.wait_until_shared_by(again)
            assert group_type(group.address, group.name) == "classic"
        group.wait_until_read(group.sent)
        again.leave()
        assert group.failures == []
        assert group.read_more_than_once() == {}
