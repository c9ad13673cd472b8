"""What the client does about a broker that goes, and answers that get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from pyk.client.address import Address
from pyk.client.cluster import Cluster
from pyk.client.connection import Connection, Unreachable
from pyk.client.group_offsets import commit_offsets, fetch_offsets
from pyk.client.groups import delete_groups
from pyk.client.offsets import LATEST, find_offsets
from pyk.client.producers import Producer as OpenProducer
from pyk.client.producers import abort, describe_producers
from pyk.client.producing import Acked, Producer
from pyk.client.settings import ClientSettings
from pyk.client.share_offsets import alter_share_offsets, delete_share_offsets
from pyk.client.topics import create_partitions, create_topics, delete_topics
from pyk.errors import ErrorCode, KafkaError
from pyk.testing import ThreadBroker, serve_in_thread
from pyk.types import TopicPartition
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pyk.wire.records import Record, build_batch


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


@pytest.fixture
def cluster(broker: ThreadBroker) -> Iterator[Cluster]:
    with Cluster.connect(broker.bootstrap_servers) as cluster:
        yield cluster


class Reviving(Cluster):
    """The broker is started again when nobody answers."""

    def __init__(self, broker: ThreadBroker) -> None:
        super().__init__(ClientSettings(bootstrap=(Address(broker.host, broker.port),)))
        self._revived = broker

    def any_broker(self) -> Connection:
        try:
            return super().any_broker()
        except Unreachable:
            self._revived.start()
            raise


def test_leaders_and_coordinators_are_waited_for_while_nobody_answers(
    broker: ThreadBroker,
) -> None:
    place = TopicPartition(broker.create_topic("orders"), 0)
    with Reviving(broker) as cluster:
        assert find_offsets(cluster, {place: LATEST}) == {place: 0}
        assert commit_offsets(cluster, "billing", {place: 0}) == {place: None}
        broker.kill()
        assert find_offsets(cluster, {place: LATEST}) == {place: 0}
        broker.kill()
        assert list(fetch_offsets(cluster, ["billing"])) == ["billing"]
        broker.kill()
        with pytest.raises(Unreachable):
            Cluster.connect(broker.bootstrap_servers).metadata()
        broker.start()


def test_what_means_another_thing_the_second_time_is_sent_once(
    broker: ThreadBroker, cluster: Cluster
) -> None:
    cluster.metadata()
    lost = "what was asked for may have been done"
    with broker.faults.on("CreateTopics").cut_after(), pytest.raises(Unreachable, match=lost):
        create_topics(cluster, ["orders"])
    assert list(cluster.topic("orders").partitions) == [0]
    with broker.faults.on("CreatePartitions").cut_after(), pytest.raises(Unreachable, match=lost):
        create_partitions(cluster, "orders", 3)
    assert list(cluster.topic("orders", is_fresh=True).partitions) == [0, 1, 2]
    with broker.faults.on("DeleteTopics").cut_after(), pytest.raises(Unreachable, match=lost):
        delete_topics(cluster, ["orders"])
    with pytest.raises(KafkaError, match="there is no topic orders"):
        cluster.topic("orders", is_fresh=True)
    apis = [each.api for each in broker.requests]
    for api in ("CreateTopics", "CreatePartitions", "DeleteTopics"):
        assert apis.count(api) == 1


def test_a_connection_that_was_closed_meanwhile_is_made_anew_for_it(
    broker: ThreadBroker, cluster: Cluster
) -> None:
    cluster.metadata()
    broker.kill()
    broker.start()
    assert create_topics(cluster, ["orders"]) == {"orders": None}


def test_a_group_that_is_gone_when_it_is_deleted_again_was_deleted(
    broker: ThreadBroker, cluster: Cluster
) -> None:
    place = TopicPartition(broker.create_topic("orders"), 0)
    commit_offsets(cluster, "billing", {place: 0})
    with broker.faults.on("DeleteGroups", times=1).cut_after():
        assert delete_groups(cluster, ["billing"]) == {"billing": None}
    (error,) = delete_groups(cluster, ["billing"]).values()
    assert error is not None
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_a_queue_has_of_a_topic_is_forgotten_once(
    broker: ThreadBroker, cluster: Cluster
) -> None:
    place = TopicPartition(broker.create_topic("orders"), 0)
    assert alter_share_offsets(cluster, "billing", {place: 0}) == {place: None}
    with broker.faults.on("DeleteShareGroupOffsets", times=1).cut_after():
        assert delete_share_offsets(cluster, "billing", ["orders"]) == {"orders": None}


def test_a_producer_has_another_id_after_an_outcome_that_is_not_known(
    broker: ThreadBroker,
) -> None:
    broker.create_topic("orders")
    settings = ClientSettings(bootstrap=(Address(broker.host, broker.port),), patience=0.0)
    acked: list[Acked] = []
    with Cluster(settings) as cluster:
        producer = Producer(cluster, on_ack=acked.extend)
        producer.send("orders", b"first")
        with broker.faults.on("Produce", times=1).cut_after(), pytest.raises(KafkaError):
            producer.flush()
        assert (producer.taken, producer.acknowledged, acked) == (1, 0, [])
        producer.send("orders", b"second")
        producer.flush()
    assert [each.record.offset for each in acked] == [1]
    assert [each.value for each in broker.records("orders")] == [b"first", b"second"]


class Meanwhile(Cluster):
    """Something happens before a request is sent again."""

    def __init__(self, broker: ThreadBroker, happens: Callable[[Cluster], None]) -> None:
        super().__init__(ClientSettings(bootstrap=(Address(broker.host, broker.port),)))
        self._happens = happens

    def refresh(self, topics: Iterable[str]) -> None:
        super().refresh(topics)
        self._happens(self)


def test_an_abort_whose_answer_is_lost_leaves_the_next_transaction_alone() -> None:
    """In v1 that has the same producer id and epoch."""
    with serve_in_thread(
        topics=["orders"], config={"transaction.partition.verification.enable": "false"}
    ) as broker:
        place = TopicPartition("orders", 0)
        with Meanwhile(broker, lambda cluster: write_in_transaction(cluster, place, 1)) as cluster:
            write_in_transaction(cluster, place, 0)
            (hanging,) = opened(cluster, place)
            lost = broker.faults.on("WriteTxnMarkers", times=1).cut_after()
            abort(cluster, hanging)
            assert lost.hits == 1
            assert [each.start_offset for each in opened(cluster, place)] == [2]


def write_in_transaction(cluster: Cluster, place: TopicPartition, sequence: int) -> None:
    batch = build_batch(
        [Record(0, 0, None, b"")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    partition = PartitionProduceData(index=place.partition, records=batch)
    topic = TopicProduceData(name=place.topic, partition_data=[partition])
    request = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=30_000, topic_data=[topic])
    answer = cluster.leader(place).ask(request, ProduceResponse, version=11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def opened(cluster: Cluster, place: TopicPartition) -> list[OpenProducer]:
    found = describe_producers(cluster, [place])[place]
    assert not isinstance(found, KafkaError)
    return [each for each in found if each.start_offset is not None]
