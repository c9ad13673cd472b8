"""The errors of a response are told wherever they are, in the versions that have them."""

from __future__ import annotations

from typing import Any

from pyk.wire.codec import encoder_of, plain_encoder_of
from pyk.wire.messages.api_versions import ApiVersionsResponse
from pyk.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyk.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def errors_in(response: Any, version: int) -> list[int]:
    """What is told when it is encoded, in both ways that there are."""
    found: list[list[int]] = []
    for of in (encoder_of, plain_encoder_of):
        found.append([])
        of(type(response), version)(response, found[-1].append)
    assert found[0] == found[1]
    return found[0]


def test_a_response_without_errors_has_none() -> None:
    assert errors_in(ApiVersionsResponse(api_keys=[]), 3) == []


def test_the_error_of_all_and_those_of_each_partition_count() -> None:
    partitions = [
        PartitionData(partition_index=i, error_code=i, high_watermark=0, records=b"")
        for i in range(3)
    ]
    topics = [FetchableTopicResponse(topic="t", partitions=partitions)] * 2
    response = FetchResponse(error_code=70, responses=topics)
    assert errors_in(response, 12) == [70, 1, 2, 1, 2]
    # There was no error for all of it before version 7.
    assert errors_in(response, 4) == [1, 2, 1, 2]


def test_errors_on_several_levels_count() -> None:
    partition = MetadataResponsePartition(
        error_code=5,
        partition_index=0,
        leader_id=-1,
        replica_nodes=[],
        isr_nodes=[],
        offline_replicas=[],
    )
    topic = MetadataResponseTopic(error_code=3, name="t", partitions=[partition])
    response = MetadataResponse(brokers=[], topics=[topic])
    assert errors_in(response, 9) == [3, 5]


def test_what_a_version_says_in_another_shape_counts_once() -> None:
    coordinator = Coordinator(
        key="g", node_id=-1, host="", port=-1, error_code=15, error_message=None
    )
    for version in range(7):
        in_a_list = version >= 4
        response = FindCoordinatorResponse(
            error_code=0 if in_a_list else 15, coordinators=[coordinator] if in_a_list else []
        )
        assert errors_in(response, version) == [15]


def test_errors_among_numbers_of_fixed_size_count() -> None:
    """Elements of such an array are written in one go."""
    partitions = [
        OffsetCommitResponsePartition(partition_index=i, error_code=i * 16) for i in range(3)
    ]
    topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
    assert errors_in(OffsetCommitResponse(topics=[topic]), 8) == [16, 32]
