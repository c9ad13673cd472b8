"""Metadata, Produce, Fetch and ListOffsets, word by word."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyk.errors import ErrorCode
from pyk.types import Uuid
from pyk.wire.apis import ApiKey
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pyk.wire.records import Record, build_batch, read_records
from tests.clients.brokers import RunningBroker, running
from tests.clients.raw import RawClient

NOW = 1_700_000_000_000
NOBODY = Uuid(b"there is no such")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data"), "-o", "num.partitions=3") as broker:
        yield broker


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with RawClient(broker.address) as client:
        yield client


@pytest.fixture
def topic(client: RawClient) -> str:
    """One that is there, because it was asked for."""
    name = f"topic-{uuid.uuid4()}"
    (found,) = metadata(client, name).topics
    assert (found.error_code, len(found.partitions)) == (0, 3)
    return name


def metadata(client: RawClient, *names: str, version: int = 12, **more: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.ask(ApiKey.METADATA, version, MetadataRequest(topics=topics, **more))


def topic_id_of(client: RawClient, topic: str) -> Uuid:
    found: Uuid = metadata(client, topic).topics[0].topic_id
    return found


def a_batch(count: int = 1, size: int = 10, **more: Any) -> bytes:
    records = [
        Record(offset=i, timestamp=NOW + i, key=None, value=bytes(size)) for i in range(count)
    ]
    return build_batch(records, **more)


def produce(
    client: RawClient, topic: str, *batches: bytes | None, acks: int = 1, version: int = 12
) -> Any:
    """The answers, by partition."""
    data = [PartitionProduceData(index=i, records=batch) for i, batch in enumerate(batches)]
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    if acks == 0:
        client.send(ApiKey.PRODUCE, version, request)
        return None
    (answer,) = client.ask(ApiKey.PRODUCE, version, request).responses
    return answer.partition_responses


def fetch_request(
    topic: str, *offsets: int, max_wait_ms: int = 0, min_bytes: int = 1, **more: Any
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=i, fetch_offset=offset, partition_max_bytes=10**6)
        for i, offset in enumerate(offsets)
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=partitions)] if partitions else [],
        **more,
    )


def fetch(client: RawClient, topic: str, *offsets: int, **more: Any) -> Any:
    """The answers, by partition."""
    response = client.ask(ApiKey.FETCH, 12, fetch_request(topic, *offsets, **more))
    assert response.error_code == 0
    return [each for found in response.responses for each in found.partitions]


def test_metadata_names_the_address_that_was_reached(
    client: RawClient, broker: RunningBroker
) -> None:
    found = client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    ((host, port),) = [(each.host, each.port) for each in found.brokers]
    assert f"{host}:{port}" == broker.address
    assert found.topics == []
    assert len(found.cluster_id) == 22


def test_a_topic_is_not_made_for_who_does_not_want_that(client: RawClient) -> None:
    (found,) = metadata(client, "not-there", allow_auto_topic_creation=False).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 250])
def test_a_name_that_is_none_is_refused(client: RawClient, name: str) -> None:
    (found,) = metadata(client, name).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_are_found_by_id(client: RawClient, topic: str) -> None:
    topic_id = topic_id_of(client, topic)
    asked = [MetadataRequestTopic(topic_id=each, name=None) for each in (topic_id, NOBODY)]
    found = client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=asked)).topics
    codes = {each.name: each.error_code for each in found}
    assert codes == {topic: 0, None: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_with_all_others(
    client: RawClient, topic: str, version: int
) -> None:
    asked = [MetadataRequestTopic(name=topic), MetadataRequestTopic(name=None)]
    found = client.ask(ApiKey.METADATA, version, MetadataRequest(topics=asked))
    assert [(each.name, each.error_code) for each in found.topics] == [
        (topic, ErrorCode.INVALID_REQUEST),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    assert found.brokers == []


def test_partitions_are_answered_one_by_one(client: RawClient, topic: str) -> None:
    broken = bytearray(a_batch())
    broken[-1] ^= 1
    first, second, third, fourth = produce(
        client, topic, a_batch(2), bytes(broken), None, a_batch()
    )
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert second.error_code == ErrorCode.CORRUPT_MESSAGE
    assert third.error_code == ErrorCode.INVALID_RECORD
    assert fourth.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_produced_to_by_id(client: RawClient, topic: str) -> None:
    data = [PartitionProduceData(index=0, records=a_batch())]
    for topic_id, code in ((topic_id_of(client, topic), 0), (NOBODY, ErrorCode.UNKNOWN_TOPIC_ID)):
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(topic_id=topic_id, partition_data=data)],
        )
        (answer,) = client.ask(ApiKey.PRODUCE, 13, request).responses
        assert (answer.topic_id, answer.partition_responses[0].error_code) == (topic_id, code)


def test_acks_that_are_none_are_refused(client: RawClient, topic: str) -> None:
    (answer,) = produce(client, topic, a_batch(), acks=2)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_without_acks_there_is_no_answer(client: RawClient, topic: str) -> None:
    produce(client, topic, a_batch(3), acks=0)
    (found,) = fetch(client, topic, 0)
    assert found.high_watermark == 3


def test_an_error_without_acks_ends_the_connection(client: RawClient, topic: str) -> None:
    produce(client, "not-there", a_batch(), acks=0)
    with pytest.raises(EOFError):
        fetch(client, topic, 0)


def test_zstd_is_for_those_who_know_it(client: RawClient, topic: str) -> None:
    zstd = a_batch(compression=4)
    (answer,) = produce(client, topic, zstd, version=6)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    (answer,) = produce(client, topic, zstd, version=7)
    assert answer.error_code == 0


def test_a_repeated_batch_is_not_there_twice(client: RawClient, topic: str) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    given = client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert (given.error_code, given.producer_epoch) == (0, 0)
    batch = a_batch(2, producer_id=given.producer_id, producer_epoch=0, base_sequence=0)
    offsets = [produce(client, topic, batch)[0].base_offset for _ in range(3)]
    assert offsets == [0, 0, 0]
    late = a_batch(1, producer_id=given.producer_id, producer_epoch=0, base_sequence=7)
    (answer,) = produce(client, topic, late)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_two_producers_get_the_same_id(client: RawClient) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    found = {client.ask(ApiKey.INIT_PRODUCER_ID, 4, request).producer_id for _ in range(2500)}
    assert len(found) == 2500


def test_a_fetch_returns_whole_batches_from_the_one_that_holds_the_offset(
    client: RawClient, topic: str
) -> None:
    produce(client, topic, a_batch(3))
    produce(client, topic, a_batch(3))
    (found,) = fetch(client, topic, 1)
    records = [record.offset for record in read_records(found.records)]
    assert records == [0, 1, 2]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (6, 6, 0)
    assert found.aborted_transactions is None


def test_the_first_batch_comes_whatever_its_size(client: RawClient, topic: str) -> None:
    produce(client, topic, a_batch(1, size=5000), a_batch(1, size=5000))
    first, second = fetch(client, topic, 0, 0, max_bytes=100)
    assert len(first.records) > 5000
    assert (len(second.records), second.high_watermark) == (0, 1)


@pytest.mark.parametrize("offset", [-1, 2, 10**12])
def test_an_offset_out_of_range_is_an_error(client: RawClient, topic: str, offset: int) -> None:
    produce(client, topic, a_batch())
    (found,) = fetch(client, topic, offset, max_wait_ms=10_000)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_waits_for_an_append(client: RawClient, broker: RunningBroker, topic: str) -> None:
    with RawClient(broker.address) as other, ThreadPoolExecutor() as pool:
        waiting = pool.submit(fetch, client, topic, 0, 0, 0, max_wait_ms=15_000)
        produce(other, topic, b"", a_batch(2))
        first, second, third = waiting.result(10)
    assert [each.high_watermark for each in (first, second, third)] == [0, 2, 0]


def test_a_fetch_ends_when_its_time_is_up(client: RawClient, topic: str) -> None:
    produce(client, topic, a_batch())
    began = time.monotonic()
    (found,) = fetch(client, topic, 0, max_wait_ms=300, min_bytes=10**6)
    assert time.monotonic() - began >= 0.3
    assert len(found.records) > 0, "what there is comes all the same"


def test_a_session_tells_only_what_is_new(client: RawClient, topic: str) -> None:
    first = client.ask(ApiKey.FETCH, 12, fetch_request(topic, 0, 0, session_epoch=0))
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 2
    more = {"session_id": first.session_id, "session_epoch": 1}
    second = client.ask(ApiKey.FETCH, 12, fetch_request(topic, **more))
    assert (second.session_id, second.responses) == (first.session_id, [])
    produce(client, topic, a_batch(), b"")
    more["session_epoch"] = 2
    third = client.ask(ApiKey.FETCH, 12, fetch_request(topic, **more))
    assert [each.partition_index for each in third.responses[0].partitions] == [0]
    wrong = client.ask(ApiKey.FETCH, 12, fetch_request(topic, **more))
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_fetching_from_what_is_not_there_is_an_error(client: RawClient, topic: str) -> None:
    (found,) = fetch(client, "not-there", 0, max_wait_ms=10_000)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic_id=NOBODY,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
    )
    (answer,) = client.ask(ApiKey.FETCH, 13, request).responses
    assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epochs_are_checked(
    client: RawClient, topic: str, epoch: int, code: ErrorCode
) -> None:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    found = client.ask(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions[0]
    assert found.error_code == code


@pytest.mark.parametrize(
    ("timestamp", "version", "expected"),
    [
        (-1, 1, (-1, 5)),
        (-2, 11, (-1, 0)),
        (-3, 11, (NOW + 2, 2)),
        (-3, 6, ErrorCode.UNSUPPORTED_VERSION),
        (-4, 11, (-1, 0)),
        (-5, 11, (-1, -1)),
        (-7, 11, ErrorCode.UNSUPPORTED_VERSION),
        (NOW + 1, 3, (NOW + 1, 1)),
        (NOW + 10, 3, (-1, -1)),
    ],
)
def test_offsets_are_listed_by_time_and_place(
    client: RawClient, topic: str, timestamp: int, version: int, expected: object
) -> None:
    produce(client, topic, a_batch(3))
    produce(client, topic, a_batch(2))
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    found = client.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]
    if isinstance(expected, tuple):
        assert (found.timestamp, found.offset) == expected
        assert found.error_code == 0
    else:
        assert found.error_code == expected


def test_epochs_end_where_the_log_does(client: RawClient, topic: str) -> None:
    produce(client, topic, a_batch(3))
    asked = [
        OffsetForLeaderPartition(partition=0, leader_epoch=0),
        OffsetForLeaderPartition(partition=0, leader_epoch=1),
        OffsetForLeaderPartition(partition=9, leader_epoch=0),
    ]
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=asked)]
    )
    found = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in found] == [
        (0, 0, 3),
        (0, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
