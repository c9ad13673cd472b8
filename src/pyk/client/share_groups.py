"""Share groups (KIP-932): listed, and described with their members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection
from pyk.client.coordinators import KeyType, ask_coordinators
from pyk.client.groups import Group, Listed, Member, list_groups
from pyk.client.topics import refusal
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.apis import ApiKey
from pyk.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from pyk.wire.messages.share_group_describe import Member as DescribedMember

SHARE: Final = "share"


def list_share_groups(cluster: Cluster) -> list[Listed]:
    """Those of all brokers, by name. Raise KafkaError, Unreachable."""
    return [each for each in list_groups(cluster) if each.type == SHARE]


def describe_share_groups(cluster: Cluster, names: Iterable[str]) -> dict[str, Group | KafkaError]:
    """What is known of each group. A group of another type is not found."""

    def ask(coordinator: Connection, asked: list[str]) -> dict[str, DescribedGroup]:
        check_offered(coordinator, ApiKey.SHARE_GROUP_DESCRIBE)
        request = ShareGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        answer = coordinator.ask(request, ShareGroupDescribeResponse)
        return {each.group_id: each for each in answer.groups}

    wanted = list(dict.fromkeys(names))
    results = ask_coordinators(cluster, wanted, ask, _error_of)
    described: dict[str, Group | KafkaError] = {}
    for name in wanted:
        found = results[name]
        if isinstance(found, KafkaError):
            described[name] = found
        else:
            described[name] = _group(found, cluster.coordinators[KeyType.GROUP, name])
    return described


def check_offered(coordinator: Connection, key: ApiKey) -> None:
    """Raise KafkaError if the broker is too old to know share groups, or does not have them on."""
    if not coordinator.offers(key):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the broker at {coordinator.address} has no share groups: it is older than Kafka 4.1, "
            "or its feature share.version is 0",
        )


def _error_of(found: DescribedGroup) -> KafkaError | None:
    return refusal(found.error_code, found.error_message)


def _group(found: DescribedGroup, coordinator: int) -> Group:
    return Group(
        group_id=found.group_id,
        state=found.group_state,
        type=SHARE,
        protocol=SHARE,
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        coordinator=coordinator,
        members=[_member(each) for each in found.members],
    )


def _member(found: DescribedMember) -> Member:
    assigned = sorted(found.assignment.topic_partitions, key=lambda each: each.topic_name)
    return Member(
        member_id=found.member_id,
        instance_id=None,
        rack_id=found.rack_id,
        client_id=found.client_id,
        host=found.client_host,
        subscribed=sorted(found.subscribed_topic_names),
        assigned={each.topic_name: sorted(each.partitions) for each in assigned},
        target=None,
        epoch=found.member_epoch,
        is_classic=False,
    )
