"""The errors of a response are found wherever they are, in the versions that have them."""

from __future__ import annotations

from pyk.wire.error_codes import errors_of
from pyk.wire.messages.api_versions import ApiVersionsResponse
from pyk.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_a_response_without_errors_has_none() -> None:
    assert errors_of(ApiVersionsResponse, 3)(ApiVersionsResponse(api_keys=[])) == ()


def test_the_error_of_all_and_those_of_each_partition_count() -> None:
    partitions = [
        PartitionData(partition_index=i, error_code=i, high_watermark=0, records=b"")
        for i in range(3)
    ]
    topics = [FetchableTopicResponse(topic="t", partitions=partitions)] * 2
    response = FetchResponse(error_code=70, responses=topics)
    assert errors_of(FetchResponse, 12)(response) == (70, 1, 2, 1, 2)
    # There was no error for all of it before version 7.
    assert errors_of(FetchResponse, 4)(response) == (1, 2, 1, 2)


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
    assert errors_of(MetadataResponse, 9)(response) == (3, 5)


def test_what_a_version_says_in_another_shape_counts_once() -> None:
    coordinator = Coordinator(
        key="g", node_id=-1, host="", port=-1, error_code=15, error_message=None
    )
    response = FindCoordinatorResponse(error_code=15, coordinators=[coordinator])
    for version in range(7):
        assert errors_of(FindCoordinatorResponse, version)(response) == (15,)
