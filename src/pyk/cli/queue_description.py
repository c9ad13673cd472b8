"""What is told of a queue: its state, how far it is, who its members are and how it is set up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyk.cli.output import Field, Row, Value
from pyk.client.cluster import Cluster
from pyk.client.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    describe_configs,
)
from pyk.client.groups import Group
from pyk.client.offsets import EARLIEST, LATEST, list_offsets
from pyk.client.share_offsets import ShareOffset, fetch_share_offsets
from pyk.errors import KafkaError
from pyk.types import TopicPartition

Offsets = Mapping[TopicPartition, ShareOffset]
OWN_KEYS = ("share.", "errors.deadletterqueue.")
"""How settings begin that are about share groups."""

LISTED = (
    Field("group", "its name"),
    Field("state", "Stable, or Empty if it has no members"),
    Field("member_count", "how many members it has"),
    Field("topics", "which it reads, or has read"),
    Field("total_lag", "how many records are not done yet, of the partitions where it is known"),
    Field("coordinator", "the broker that looks after it", is_wide=True),
)
STATE = (
    Field("group", "its name"),
    Field("state", "Stable, or Empty if it has no members"),
    Field("assignor", "who decides which member reads what"),
    Field("coordinator", "the broker that looks after it"),
    Field("epoch", "how often it has changed", is_wide=True),
    Field("assignment_epoch", "and for which epoch it was assigned last", is_wide=True),
    Field("member_count", "how many members it has"),
    Field("total_lag", "how many records are not done yet, of the partitions where it is known"),
)
OFFSETS = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("start", "before it all is done; null if nobody has fetched yet"),
    Field("log_start", "the partition's first offset", is_wide=True),
    Field("log_end", "the offset after its last committed record"),
    Field("lag", "how many offsets from the start on are not done; null if not known"),
    Field("members", "how many members have it"),
    Field("leader_epoch", "of the leader that has told of it last", is_wide=True),
)
MEMBERS = (
    Field("member", "the id that it chose"),
    Field("client", "its client.id"),
    Field("host", "where it is"),
    Field("rack", "where it stands", is_wide=True),
    Field("epoch", "how far it has followed the group's epoch", is_wide=True),
    Field("partitions", "how many it has"),
    Field("assigned", "which, by topic"),
    Field("subscribed", "the topics it wants", is_wide=True),
)
CONFIGS = (
    Field("key", "the name of the setting"),
    Field("value", "what is set for this group"),
)


def listed(group: Group, offsets: Offsets) -> Row:
    wanted = {name for member in group.members for name in member.subscribed}
    return {
        "group": group.group_id,
        "state": group.state,
        "member_count": len(group.members),
        "topics": sorted(wanted | {each.topic for each in offsets}),
        "total_lag": total_lag(offsets),
        "coordinator": group.coordinator,
    }


def described_state(group: Group, offsets: Offsets) -> dict[str, Value]:
    return {
        "group": group.group_id,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
        "total_lag": total_lag(offsets),
    }


def described_members(group: Group) -> list[Row]:
    rows: list[Row] = [
        {
            "member": each.member_id,
            "client": each.client_id,
            "host": each.host.removeprefix("/"),
            "rack": each.rack_id,
            "epoch": each.epoch,
            "partitions": sum(map(len, (each.assigned or {}).values())),
            "assigned": each.assigned,
            "subscribed": each.subscribed,
        }
        for each in group.members
    ]
    return sorted(rows, key=lambda row: (str(row["client"]), str(row["member"])))


def described_configs(cluster: Cluster, name: str) -> list[Row]:
    """What is set for the group itself, and not for all. Raise KafkaError."""
    return [
        {"key": each.name, "value": each.value}
        for each in describe_configs(cluster, Resource(ResourceType.GROUP, name))
        if each.name.startswith(OWN_KEYS)
        and each.config_source == ConfigSource.DYNAMIC_GROUP_CONFIG
    ]


def described_offsets(
    cluster: Cluster, groups: Sequence[Group], offsets: Mapping[str, Offsets], topics: Iterable[str]
) -> dict[str, list[Row]]:
    """By group, a row for each partition that it has begun or that a member has."""
    wanted = set(topics)
    held = {group.group_id: _held(group) for group in groups}
    partitions = {
        each
        for name in held
        for each in (*offsets[name], *held[name])
        if not wanted or each.topic in wanted
    }
    starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))

    def row(name: str, each: TopicPartition) -> Row:
        offset = offsets[name].get(each, ShareOffset(None, 0, None))
        return {
            **each._asdict(),
            "start": offset.start,
            "log_start": _known(starts.get(each)),
            "log_end": _known(ends.get(each)),
            "lag": offset.lag,
            "members": held[name].get(each, 0),
            "leader_epoch": offset.leader_epoch,
        }

    return {
        name: [row(name, each) for each in sorted(partitions & {*offsets[name], *held[name]})]
        for name in held
    }


def offsets_of(cluster: Cluster, names: Iterable[str]) -> dict[str, Offsets]:
    """Raise KafkaError."""
    found: dict[str, Offsets] = {}
    for name, offsets in fetch_share_offsets(cluster, names).items():
        if isinstance(offsets, KafkaError):
            raise KafkaError(offsets.code, f"the offsets of {name}: {offsets}")
        found[name] = offsets
    return found


def total_lag(offsets: Offsets) -> int | None:
    """None if there is something, and nothing is known of it."""
    known = [each.lag for each in offsets.values() if each.lag is not None]
    return sum(known) if known or not offsets else None


def _held(group: Group) -> dict[TopicPartition, int]:
    """How many members have each partition."""
    found: dict[TopicPartition, int] = {}
    for member in group.members:
        for topic, numbers in (member.assigned or {}).items():
            for number in numbers:
                partition = TopicPartition(topic, number)
                found[partition] = found.get(partition, 0) + 1
    return found


def _known(offset: int | KafkaError | None) -> int | None:
    return offset if isinstance(offset, int) else None
