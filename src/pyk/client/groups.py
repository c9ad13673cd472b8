"""Groups: listed, described in either of their two protocols, and deleted.

A classic group leaves it to its members who reads what, and the broker keeps their plan as bytes
(JoinGroup, SyncGroup). In a consumer group, see KIP-848, the broker assigns partitions itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyk.client.cluster import BACKOFF, Cluster
from pyk.client.connection import Connection, Unreachable
from pyk.client.coordinators import PASSING, KeyType, ask_coordinators
from pyk.client.topics import refusal
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.wire.apis import ApiKey
from pyk.wire.messages import consumer_group_describe as consumer
from pyk.wire.messages import describe_groups as classic
from pyk.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from pyk.wire.payloads.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pyk.wire.prefixed import decode_value

CLASSIC_MEMBER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    group_id: str
    state: str | None
    type: str | None
    """None for both if the broker is too old to say."""
    protocol: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    subscribed: Sequence[str]
    """Names of topics, or a regular expression."""
    assigned: Mapping[str, Sequence[int]] | None
    """Partitions by topic; None if the group's protocol is not that of consumers."""
    target: Mapping[str, Sequence[int]] | None
    """What it is to have in the end; None in a classic group."""
    epoch: int | None
    is_classic: bool
    """Whether it joined by the classic protocol, which a consumer group lets it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    group_id: str
    state: str
    type: str
    protocol: str
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    """Of consumer groups: how often membership and assignment have changed."""
    coordinator: int
    members: Sequence[Member]

    @property
    def is_active(self) -> bool:
        return bool(self.members) or self.state not in ("Empty", "Dead")


def list_groups(cluster: Cluster) -> list[Listed]:
    """The groups of all brokers, by name. Raise KafkaError, Unreachable."""
    found = [
        Listed(
            group_id=each.group_id,
            state=each.group_state or None,
            type=each.group_type or None,
            protocol=each.protocol_type,
            coordinator=broker.node_id,
        )
        for broker in cluster.metadata(()).brokers
        for each in _list_groups_of(cluster, broker.node_id)
    ]
    return sorted(found, key=lambda each: each.group_id)


def _list_groups_of(cluster: Cluster, broker_id: int) -> list[ListedGroup]:
    deadline = time.monotonic() + cluster.settings.patience
    of_broker = partial(cluster.broker, broker_id)
    while True:
        answer = cluster.ask(ListGroupsRequest(), ListGroupsResponse, of=of_broker)
        if not answer.error_code:
            return answer.groups
        code = ErrorCode(answer.error_code)
        if code not in PASSING or time.monotonic() > deadline:
            raise KafkaError(code, f"broker {broker_id} does not list its groups: {code.name}")
        time.sleep(BACKOFF)


def describe_groups(cluster: Cluster, names: Iterable[str]) -> dict[str, Group | KafkaError]:
    """What is known of each group. It is asked for as a consumer group first, as Java's client
    does, and as a classic one if it is none or if the broker knows none."""
    wanted = list(dict.fromkeys(names))
    results: dict[str, Group | KafkaError] = {}
    found = ask_coordinators(cluster, wanted, _describe_consumer, _error_of)
    for name, each in found.items():
        if isinstance(each, consumer.DescribedGroup):
            results[name] = _consumer_group(each, cluster.coordinators[KeyType.GROUP, name])
        elif not isinstance(each, KafkaError):
            continue
        elif each.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            results[name] = each
    left = [name for name in wanted if name not in results]
    for name, other in ask_coordinators(cluster, left, _describe_classic, _error_of).items():
        if isinstance(other, KafkaError):
            results[name] = other
        elif other.group_state == "Dead":
            # So brokers before Kafka 4.0 say it.
            results[name] = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            results[name] = _classic_group(other, cluster.coordinators[KeyType.GROUP, name])
    return {name: results[name] for name in wanted}


def delete_groups(cluster: Cluster, names: Iterable[str]) -> dict[str, KafkaError | None]:
    """What became of each group."""
    unanswered: set[str] = set()

    def ask(coordinator: Connection, asked: list[str]) -> dict[str, KafkaError | None]:
        request = DeleteGroupsRequest(groups_names=asked)
        try:
            answer = coordinator.ask(request, DeleteGroupsResponse)
        except Unreachable:
            unanswered.update(asked)
            raise
        # One of which the first answer was lost has gone, as it should.
        gone = {(name, int(ErrorCode.GROUP_ID_NOT_FOUND)) for name in unanswered}
        return {
            group: None if (group, code) in gone else refusal(code)
            for group, code in ((each.group_id, each.error_code) for each in answer.results)
        }

    wanted = list(dict.fromkeys(names))
    results = ask_coordinators(cluster, wanted, ask, lambda error: error)
    return {name: results[name] for name in wanted}


def _describe_consumer(
    coordinator: Connection, asked: list[str]
) -> dict[str, consumer.DescribedGroup | None]:
    request = consumer.ConsumerGroupDescribeRequest(
        group_ids=asked, include_authorized_operations=False
    )
    if not coordinator.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        return dict.fromkeys(asked)
    answer = coordinator.ask(request, consumer.ConsumerGroupDescribeResponse)
    return {each.group_id: each for each in answer.groups}


def _describe_classic(
    coordinator: Connection, asked: list[str]
) -> dict[str, classic.DescribedGroup]:
    request = classic.DescribeGroupsRequest(groups=asked)
    answer = coordinator.ask(request, classic.DescribeGroupsResponse)
    return {each.group_id: each for each in answer.groups}


def _error_of(found: consumer.DescribedGroup | classic.DescribedGroup | None) -> KafkaError | None:
    return None if found is None else refusal(found.error_code, found.error_message)


def _consumer_group(found: consumer.DescribedGroup, coordinator: int) -> Group:
    return Group(
        group_id=found.group_id,
        state=found.group_state,
        type="consumer",
        protocol="consumer",
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        coordinator=coordinator,
        members=[
            Member(
                member_id=each.member_id,
                instance_id=each.instance_id,
                rack_id=each.rack_id,
                client_id=each.client_id,
                host=each.client_host,
                subscribed=each.subscribed_topic_names
                or ([each.subscribed_topic_regex] if each.subscribed_topic_regex else []),
                assigned=_by_topic(each.assignment),
                target=_by_topic(each.target_assignment),
                epoch=each.member_epoch,
                is_classic=each.member_type == CLASSIC_MEMBER,
            )
            for each in found.members
        ],
    )


def _by_topic(assignment: consumer.Assignment) -> dict[str, list[int]]:
    return {
        each.topic_name: sorted(each.partitions)
        for each in sorted(assignment.topic_partitions, key=lambda each: each.topic_name)
    }


def _classic_group(found: classic.DescribedGroup, coordinator: int) -> Group:
    return Group(
        group_id=found.group_id,
        state=found.group_state,
        type="classic",
        protocol=found.protocol_type,
        assignor=found.protocol_data,
        epoch=None,
        assignment_epoch=None,
        coordinator=coordinator,
        members=[_classic_member(each, found.protocol_type) for each in found.members],
    )


def _classic_member(found: classic.DescribedGroupMember, protocol: str) -> Member:
    subscribed: list[str] = []
    assigned: dict[str, list[int]] | None = {}
    if protocol != "consumer":
        assigned = None
    else:
        try:
            # A member that has joined and not yet been assigned anything has no bytes.
            if found.member_metadata:
                subscription = decode_value(ConsumerProtocolSubscription, found.member_metadata)
                subscribed = sorted(subscription.topics)
            if found.member_assignment:
                assignment = decode_value(ConsumerProtocolAssignment, found.member_assignment)
                assigned = {
                    each.topic: sorted(each.partitions)
                    for each in sorted(assignment.assigned_partitions, key=lambda each: each.topic)
                }
        except ProtocolError:
            # The bytes are the members' own affair, which any client may have written.
            assigned = None
    return Member(
        member_id=found.member_id,
        instance_id=found.group_instance_id,
        rack_id=None,
        client_id=found.client_id,
        host=found.client_host,
        subscribed=subscribed,
        assigned=assigned,
        target=None,
        epoch=None,
        is_classic=True,
    )
