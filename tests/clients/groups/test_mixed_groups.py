"""One classic group of two client libraries, which agree on an assignor that both have."""

from __future__ import annotations

import pytest

from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Kind


@pytest.mark.parametrize(
    ("kind", "other"),
    [(CONFLUENT, KAFKA_PYTHON), (KAFKA_PYTHON, AIOKAFKA), (AIOKAFKA, CONFLUENT)],
    ids=lambda kind: kind.name,
)
def test_two_libraries_read_every_record_once(groups: Groups, other: Kind) -> None:
    read_every_record_once(groups, other)


def read_every_record_once(groups: Groups, other: Kind) -> None:
    """Either is the leader once, who shares out the partitions: the first to come."""
    with groups.new(partitions=6) as group:
        with group.traffic():
            first = group.join()
            group.wait_until_shared_by(first)
            second, third = group.join(other), group.join()
            group.wait_until_shared_by(first, second, third)
            first.leave()
            group.wait_until_shared_by(second, third)
            third.leave()
            fourth = group.join()
            group.wait_until_shared_by(second, fourth)
        group.wait_until_read(group.sent)
        second.leave()
        fourth.leave()
        assert group.failures == []
        assert group.read_more_than_once() == {}
