"""What is told of a group: its state, how far it has read, and who its members are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyk.cli.output import Field, Row, Value
from pyk.client.cluster import Cluster
from pyk.client.group_offsets import Committed, fetch_offsets
from pyk.client.groups import Group, Listed, Member
from pyk.client.offsets import EARLIEST, LATEST, list_offsets
from pyk.errors import KafkaError
from pyk.types import TopicPartition

Offsets = Mapping[TopicPartition, "int | KafkaError"]

LISTED = (
    Field("group", "its name"),
    Field("state", "such as Stable, or Empty if it has no members"),
    Field("type", "the protocol of its members: classic, consumer, share or streams"),
    Field("protocol", "what its members are: consumer, connect and so on; empty without any"),
    Field("coordinator", "the broker that looks after it"),
)
STATE = (
    Field("group", "its name"),
    Field("state", "such as Stable, or Empty if it has no members"),
    Field("type", "classic, or consumer (KIP-848)"),
    Field("protocol", "what its members are: consumer, connect and so on; empty without any"),
    Field("assignor", "who decides which member reads what"),
    Field("coordinator", "the broker that looks after it"),
    Field("epoch", "of a consumer group: how often it has changed", is_wide=True),
    Field("assignment_epoch", "and for which epoch it was assigned last", is_wide=True),
    Field("member_count", "how many members it has"),
    Field("total_lag", "the lag of its partitions in all, as far as it is known"),
)
OFFSETS = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("committed", "the offset to go on from; null if there is none"),
    Field("log_start", "the partition's first offset", is_wide=True),
    Field("log_end", "the offset after its last committed record"),
    Field("lag", "how many offsets of what is there are left to read; null if not known"),
    Field("member", "who reads it now"),
    Field("client", "the client.id of that member"),
    Field("host", "and where it is"),
    Field("leader_epoch", "of the record before the committed offset", is_wide=True),
    Field("metadata", "what was committed with the offset", is_wide=True),
)
MEMBERS = (
    Field("member", "the id that it was given, or chose"),
    Field("client", "its client.id"),
    Field("host", "where it is"),
    Field("instance", "its group.instance.id, if it has one", is_wide=True),
    Field("rack", "where it stands", is_wide=True),
    Field("protocol", "by which it joined: classic or consumer", is_wide=True),
    Field("epoch", "how far it has followed the group's epoch", is_wide=True),
    Field("partitions", "how many it has"),
    Field("assigned", "which, by topic"),
    Field("target", "which it is to have in the end", is_wide=True),
    Field("subscribed", "the topics it wants, or a regular expression", is_wide=True),
)


def listed(found: Listed) -> Row:
    return {
        "group": found.group_id,
        "state": found.state,
        "type": found.type,
        "protocol": found.protocol,
        "coordinator": found.coordinator,
    }


def described_state(group: Group) -> dict[str, Value]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
    }


def described_members(group: Group) -> list[Row]:
    rows = [_described_member(member) for member in group.members]
    return sorted(rows, key=lambda row: (str(row["client"]), str(row["member"])))


def _described_member(member: Member) -> Row:
    assigned = member.assigned
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host.removeprefix("/"),
        "instance": member.instance_id,
        "rack": member.rack_id,
        "protocol": "classic" if member.is_classic else "consumer",
        "epoch": member.epoch,
        "partitions": None if assigned is None else sum(map(len, assigned.values())),
        "assigned": assigned,
        "target": member.target,
        "subscribed": member.subscribed,
    }


def described_offsets(
    cluster: Cluster, groups: Iterable[Group], topics: Iterable[str]
) -> dict[str, list[Row]]:
    """By group, a row for each partition that it has committed an offset of or that a member has.
    Raise KafkaError."""
    wanted = set(topics)
    of_groups: dict[str, tuple[dict[TopicPartition, Committed], dict[TopicPartition, Member]]] = {}
    by_name = {each.group_id: each for each in groups}
    for name, committed in fetch_offsets(cluster, by_name).items():
        if isinstance(committed, KafkaError):
            raise KafkaError(committed.code, f"the offsets of {name}: {committed}")
        of_groups[name] = committed, owners(by_name[name])
    partitions = {
        partition
        for committed, owned in of_groups.values()
        for partition in (*committed, *owned)
        if not wanted or partition.topic in wanted
    }
    starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return {
        name: [
            _described_partition(each, committed.get(each), owned.get(each), starts, ends)
            for each in sorted(partitions & {*committed, *owned})
        ]
        for name, (committed, owned) in of_groups.items()
    }


def owners(group: Group) -> dict[TopicPartition, Member]:
    return {
        TopicPartition(topic, number): member
        for member in group.members
        for topic, numbers in (member.assigned or {}).items()
        for number in numbers
    }


def _described_partition(
    partition: TopicPartition,
    committed: Committed | None,
    owner: Member | None,
    starts: Offsets,
    ends: Offsets,
) -> Row:
    start, end = _known(starts.get(partition)), _known(ends.get(partition))
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": None if committed is None else committed.offset,
        "log_start": start,
        "log_end": end,
        "lag": lag(None if committed is None else committed.offset, start, end),
        "member": None if owner is None else owner.member_id,
        "client": None if owner is None else owner.client_id,
        "host": None if owner is None else owner.host.removeprefix("/"),
        "leader_epoch": None if committed is None else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
    }


def lag(committed: int | None, start: int | None, end: int | None) -> int | None:
    """What was trimmed before it was read cannot be read any more, and is no lag."""
    if committed is None or end is None:
        return None
    return max(end - max(committed, start or 0), 0)


def total_lag(rows: Iterable[Row]) -> int:
    return sum(each for row in rows if isinstance(each := row["lag"], int))


def _known(offset: int | KafkaError | None) -> int | None:
    return offset if isinstance(offset, int) else None
