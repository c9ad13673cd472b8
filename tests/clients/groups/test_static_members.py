"""Members with an id of their own (KIP-345): who comes back in time finds its partitions."""

from __future__ import annotations

from tests.clients.groups.coordinator import committed_offsets, group_epoch, group_type
from tests.clients.groups.group import SHORT_SESSION_MS, Group, Groups, Member

COUNT = 3


def test_a_rolling_restart_causes_no_rebalance(groups: Groups) -> None:
    groups.kind.needs_to("be a static member")
    with groups.new(partitions=6) as group:
        members = [group.join(instance=f"static-{number}") for number in range(COUNT)]
        group.wait_until_shared_by(*members)
        group.wait_until_read(group.produce(2))
        rebalances = [each.rebalances for each in members]
        epoch = epoch_of(group)
        for number in range(COUNT):
            owned = set(members[number].partitions)
            end_of_life(members[number], is_sudden=number == 1)
            members[number] = group.join(instance=f"static-{number}")
            rebalances[number] = 1
            group.wait_until_shared_by(*members)
            assert members[number].partitions == owned
            group.wait_until_read(group.produce(2))
        assert [each.rebalances for each in members] == rebalances
        assert epoch_of(group) == epoch
        assert group.read_more_than_once() == {}
        assert group.failures == []


def end_of_life(member: Member, *, is_sudden: bool) -> None:
    member.commit()
    # The consumer protocol keeps an instance's place for whoever has it until he lets go of it.
    if is_sudden and member.kind.protocol == "classic":
        member.kill()
    else:
        member.leave()


def epoch_of(group: Group) -> int | None:
    """It grows whenever the members or what they want has changed. None in a classic group."""
    if group_type(group.address, group.name) != "consumer":
        return None
    return group_epoch(group.address, group.name)


def test_who_does_not_come_back_in_time_loses_its_partitions(groups: Groups) -> None:
    groups.kind.needs_to("be a static member")
    with groups.new(partitions=4, session_ms=SHORT_SESSION_MS) as group:
        members: list[Member] = [group.join(instance=f"static-{each}") for each in range(2)]
        group.wait_until_shared_by(*members)
        sent = group.produce(1)
        group.wait_until_read(sent)
        members[0].leave()
        group.wait_until_shared_by(members[1])
        members[1].commit()
        assert committed_offsets(group.address, group.name) == dict.fromkeys(group.partitions, 1)
