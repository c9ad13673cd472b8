"""Racks, which members may tell."""

from __future__ import annotations

from tests.clients.groups.coordinator import racks
from tests.clients.groups.group import Groups


def test_the_racks_of_members_are_known(groups: Groups) -> None:
    groups.kind.needs_to("send its rack")
    with groups.new(partitions=4) as group:
        first, second = group.join(rack="north"), group.join(rack="south")
        group.wait_until_shared_by(first, second)
        assert racks(group.address, group.name) == {"north", "south"}
        group.wait_until_read(group.produce(2))
        assert group.failures == []
