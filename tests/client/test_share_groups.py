"""Share groups as a client asks for them: again, where their coordinator is not ready."""

from __future__ import annotations

import pytest

from pyk.client.cluster import Cluster
from pyk.client.share_groups import describe_share_groups
from pyk.client.share_offsets import (
    alter_share_offsets,
    delete_share_offsets,
    fetch_share_offsets,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.types import ZERO_UUID, TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from pyk.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeResponse
from tests.client.peers import Script, peer, scripted

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
JOBS = TopicPartition("jobs", 0)


def script(key: ApiKey, *answers: object) -> Script:
    """A coordinator that is found as often as it is looked for."""
    found = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])
    return {ApiKey.FIND_COORDINATOR: (6, [found] * len(answers)), key: (1, list(answers))}


def altered(code: int) -> AlterShareGroupOffsetsResponse:
    partition = AlterShareGroupOffsetsResponsePartition(partition_index=0, error_code=code)
    topic = AlterShareGroupOffsetsResponseTopic(
        topic_name="jobs", topic_id=ZERO_UUID, partitions=[partition]
    )
    return AlterShareGroupOffsetsResponse(responses=[topic])


def deleted(code: int) -> DeleteShareGroupOffsetsResponse:
    topic = DeleteShareGroupOffsetsResponseTopic(
        topic_name="jobs", topic_id=ZERO_UUID, error_code=code
    )
    return DeleteShareGroupOffsetsResponse(responses=[topic])


def described(code: int) -> ShareGroupDescribeResponse:
    group = DescribedGroup(
        error_code=code,
        group_id="g",
        group_state="Empty",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="simple",
        members=[],
    )
    return ShareGroupDescribeResponse(groups=[group])


def test_a_coordinator_that_loads_is_asked_again() -> None:
    answers = script(ApiKey.SHARE_GROUP_DESCRIBE, described(LOADING), described(0))
    with peer(scripted(answers)) as address, Cluster.connect(str(address)) as cluster:
        found = describe_share_groups(cluster, ["g"])["g"]
    assert not isinstance(found, KafkaError)
    assert (found.type, found.state, found.coordinator) == ("share", "Empty", 1)


def test_it_is_asked_again_also_where_only_its_partitions_say_so() -> None:
    answers = script(ApiKey.ALTER_SHARE_GROUP_OFFSETS, altered(LOADING), altered(0))
    with peer(scripted(answers)) as address, Cluster.connect(str(address)) as cluster:
        assert alter_share_offsets(cluster, "g", {JOBS: 1}) == {JOBS: None}
    answers = script(ApiKey.DELETE_SHARE_GROUP_OFFSETS, deleted(LOADING), deleted(0))
    with peer(scripted(answers)) as address, Cluster.connect(str(address)) as cluster:
        assert delete_share_offsets(cluster, "g", ["jobs"]) == {"jobs": None}


def test_what_is_refused_for_a_group_is_raised_and_for_a_partition_told() -> None:
    refused = AlterShareGroupOffsetsResponse(error_code=68, error_message="busy", responses=[])
    answers = script(ApiKey.ALTER_SHARE_GROUP_OFFSETS, refused)
    with (
        peer(scripted(answers)) as address,
        Cluster.connect(str(address)) as cluster,
        pytest.raises(KafkaError, match="busy"),
    ):
        alter_share_offsets(cluster, "g", {JOBS: 1})
    answers = script(ApiKey.ALTER_SHARE_GROUP_OFFSETS, altered(3))
    with peer(scripted(answers)) as address, Cluster.connect(str(address)) as cluster:
        (error,) = alter_share_offsets(cluster, "g", {JOBS: 1}).values()
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_error_of_a_group_is_its_answer() -> None:
    group = DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[], error_code=30)
    answer = DescribeShareGroupOffsetsResponse(groups=[group])
    answers = script(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, answer)
    with peer(scripted(answers)) as address, Cluster.connect(str(address)) as cluster:
        found = fetch_share_offsets(cluster, ["g"])["g"]
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
