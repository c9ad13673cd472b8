"""Coordinators that move, load or are old, as a client meets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyk.client.address import Address
from pyk.client.cluster import Cluster
from pyk.client.group_offsets import Committed, commit_offsets, delete_offsets, fetch_offsets
from pyk.client.groups import Group, delete_groups, describe_groups, list_groups
from pyk.client.settings import ClientSettings
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages import consumer_group_describe as consumer
from pyk.wire.messages import describe_groups as classic
from pyk.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from pyk.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyk.wire.messages.offset_delete import OffsetDeleteResponse
from pyk.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.client.peers import Script, peer, scripted

FOUND = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])
ORDERS = TopicPartition("orders", 0)


def nowhere(code: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key="g", node_id=-1, error_code=code, error_message=None)]
    )


def offsets(code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="m"),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topics = [] if code else [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=code)
    return OffsetFetchResponse(groups=[group])


def committed(code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = OffsetCommitResponseTopic(name="orders", partitions=[partition])
    return OffsetCommitResponse(topics=[topic])


@contextmanager
def broker(script: Script, *, patience: float = 15.0) -> Iterator[Cluster]:
    """A cluster of one that answers from a script, and must have been asked all of it."""
    with peer(scripted(script)) as address:
        settings = ClientSettings(
            bootstrap=(Address(address.host, address.port),), patience=patience
        )
        with Cluster(settings) as cluster:
            yield cluster
    assert {key: rest for key, (_, rest) in script.items() if rest} == {}


def test_a_coordinator_is_asked_again_while_it_loads_and_after_it_has_moved() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (
            6,
            [nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE), FOUND, FOUND, FOUND],
        ),
        ApiKey.OFFSET_FETCH: (
            9,
            [
                offsets(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
                offsets(ErrorCode.NOT_COORDINATOR),
                offsets(),
            ],
        ),
    }
    with broker(script) as cluster:
        found = fetch_offsets(cluster, ["g"])
    assert found == {"g": {ORDERS: Committed(5, None, "m")}}


def test_the_coordinator_is_looked_for_once() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.OFFSET_FETCH: (9, [offsets(), offsets()]),
    }
    with broker(script) as cluster:
        assert fetch_offsets(cluster, ["g"]) == fetch_offsets(cluster, ["g"])


def test_patience_ends_with_the_coordinators_own_word() -> None:
    answers = [nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    with broker({ApiKey.FIND_COORDINATOR: (6, [*answers])}, patience=0.0) as cluster:
        (found,) = fetch_offsets(cluster, ["g"]).values()
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_refusal_is_not_asked_again() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [nowhere(ErrorCode.GROUP_AUTHORIZATION_FAILED)]),
    }
    with broker(script) as cluster:
        (found,) = delete_groups(cluster, ["g"]).values()
    assert found is not None
    assert found.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_commit_is_sent_again_to_the_coordinator_that_is_it_now() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND, FOUND]),
        ApiKey.OFFSET_COMMIT: (
            9,
            [committed(ErrorCode.NOT_COORDINATOR), committed(ErrorCode.NONE)],
        ),
    }
    with broker(script) as cluster:
        assert commit_offsets(cluster, "g", {ORDERS: 5}) == {ORDERS: None}


def test_a_group_with_members_refuses_each_partition() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.OFFSET_COMMIT: (9, [committed(ErrorCode.UNKNOWN_MEMBER_ID)]),
    }
    with broker(script) as cluster:
        (error,) = commit_offsets(cluster, "g", {ORDERS: 5}).values()
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.OFFSET_DELETE: (
            0,
            [OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[])],
        ),
    }
    with broker(script) as cluster, pytest.raises(KafkaError) as refused:
        delete_offsets(cluster, "g", [ORDERS])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_is_tried_again_where_the_coordinator_is_then() -> None:
    def deleted(code: ErrorCode) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=code)])

    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND, FOUND]),
        ApiKey.DELETE_GROUPS: (2, [deleted(ErrorCode.NOT_COORDINATOR), deleted(ErrorCode.NONE)]),
    }
    with broker(script) as cluster:
        assert delete_groups(cluster, ["g"]) == {"g": None}


def classic_group(state: str, protocol: str = "consumer", data: bytes = b"") -> object:
    member = classic.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=data, member_assignment=data
    )
    group = classic.DescribedGroup(
        group_id="g",
        group_state=state,
        protocol_type=protocol,
        protocol_data="range",
        members=[member] if data else [],
    )
    return classic.DescribeGroupsResponse(groups=[group])


def test_what_is_no_consumer_group_is_asked_for_as_a_classic_one() -> None:
    absent = consumer.DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (
            1,
            [consumer.ConsumerGroupDescribeResponse(groups=[absent])],
        ),
        ApiKey.DESCRIBE_GROUPS: (6, [classic_group("Empty")]),
    }
    with broker(script) as cluster:
        (found,) = describe_groups(cluster, ["g"]).values()
    assert isinstance(found, Group)
    assert (found.type, found.state, found.coordinator, found.is_active) == (
        "classic", "Empty", 1, False,
    )  # fmt: skip


def test_a_broker_without_consumer_groups_is_asked_for_classic_ones_at_once() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (4, [FOUND]),
        ApiKey.DESCRIBE_GROUPS: (5, [classic_group("Dead")]),
    }
    with broker(script) as cluster:
        (found,) = describe_groups(cluster, ["g"]).values()
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("protocol", "data"), [("connect", b"\0\1abc"), ("consumer", b"\0\0junk")])
def test_what_members_keep_in_a_form_of_their_own_is_not_guessed_at(
    protocol: str, data: bytes
) -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.DESCRIBE_GROUPS: (5, [classic_group("Stable", protocol, data)]),
    }
    with broker(script) as cluster:
        (found,) = describe_groups(cluster, ["g"]).values()
    assert isinstance(found, Group)
    assert found.is_active
    assert [member.assigned for member in found.members] == [None]


def test_groups_are_listed_when_they_are_loaded() -> None:
    loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    listed = ListGroupsResponse(groups=[ListedGroup(group_id="g", protocol_type="consumer")])
    with broker({ApiKey.LIST_GROUPS: (3, [loading, listed])}) as cluster:
        (found,) = list_groups(cluster)
    assert (found.group_id, found.state, found.type, found.coordinator) == ("g", None, None, 1)


def test_a_broker_older_than_kafka_3_is_told_of_by_its_versions() -> None:
    with (
        broker({ApiKey.FIND_COORDINATOR: (3, [])}) as cluster,
        pytest.raises(KafkaError, match=r"FIND_COORDINATOR has versions 0-3 at .*, and 4-6 here"),
    ):
        fetch_offsets(cluster, ["g"])


def test_offsets_of_which_one_cannot_be_told_are_not_known() -> None:
    answer = offsets()
    partitions = answer.groups[0].topics[0].partitions
    partitions[1] = OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    script: Script = {ApiKey.FIND_COORDINATOR: (6, [FOUND]), ApiKey.OFFSET_FETCH: (9, [answer])}
    with broker(script) as cluster:
        (found,) = fetch_offsets(cluster, ["g"]).values()
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
