"""Coordinators of transactions as a client meets them: loading, old, or busy with an end."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from pyk.client.cluster import Cluster
from pyk.client.groups import describe_groups
from pyk.client.producers import describe_producers, find_hanging
from pyk.client.topics import create_topics
from pyk.client.transactions import Filters, describe_transactions, fence, list_transactions
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyk.wire.messages.init_producer_id import InitProducerIdResponse
from pyk.wire.messages.list_transactions import ListTransactionsResponse, TransactionState
from tests.client.peers import Script
from tests.client.test_groups import broker
from tests.clients.brokers import running

FOUND = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)])
ORDERS = TopicPartition("orders", 0)


def listed(*names: str, code: ErrorCode = ErrorCode.NONE) -> ListTransactionsResponse:
    states = [
        TransactionState(transactional_id=name, producer_id=1, transaction_state="Ongoing")
        for name in names
    ]
    return ListTransactionsResponse(
        error_code=code, unknown_state_filters=[], transaction_states=states
    )


def given(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=3)


def test_transactions_are_listed_when_they_are_loaded() -> None:
    loading = listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with broker({ApiKey.LIST_TRANSACTIONS: (2, [loading, listed("b", "a")])}) as cluster:
        found = list_transactions(cluster)
    assert [(each.transactional_id, each.coordinator) for each in found] == [("a", 1), ("b", 1)]


def test_a_broker_that_does_not_list_them_is_quoted() -> None:
    refusing = listed(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with (
        broker({ApiKey.LIST_TRANSACTIONS: (2, [refusing])}) as cluster,
        pytest.raises(KafkaError, match=r"broker 1 .* CLUSTER_AUTHORIZATION_FAILED"),
    ):
        list_transactions(cluster)


def test_a_pattern_that_the_broker_is_too_old_for_is_looked_for_here() -> None:
    with broker({ApiKey.LIST_TRANSACTIONS: (1, [listed("shop-1", "my-shop-1")])}) as cluster:
        found = list_transactions(cluster, Filters(pattern="shop-."))
    assert [each.transactional_id for each in found] == ["shop-1"]


def test_a_pattern_that_is_none_is_refused_whoever_looks_for_it() -> None:
    refusing = listed(code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    for version, answers in ((1, []), (2, [refusing])):
        with (
            broker({ApiKey.LIST_TRANSACTIONS: (version, [*answers])}) as cluster,
            pytest.raises(KafkaError, match=r"'\(' is not a regular expression"),
        ):
            list_transactions(cluster, Filters(pattern="("))


def test_a_broker_too_old_to_know_how_long_they_run_is_told_of_by_its_versions() -> None:
    with (
        broker({ApiKey.LIST_TRANSACTIONS: (0, [])}) as cluster,
        pytest.raises(KafkaError, match=r"LIST_TRANSACTIONS has versions 0 at .*, and 1-2 here"),
    ):
        list_transactions(cluster, Filters(longer_than_ms=0))


def test_the_end_of_a_transaction_that_is_fenced_is_waited_for() -> None:
    answers: list[object] = [given(ErrorCode.CONCURRENT_TRANSACTIONS)] * 2
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.INIT_PRODUCER_ID: (6, [*answers, given(ErrorCode.NONE)]),
    }
    with broker(script) as cluster:
        assert fence(cluster, "x", 60_000) == (7, 3)


def test_patience_with_a_transaction_that_does_not_end_is_bounded() -> None:
    script: Script = {
        ApiKey.FIND_COORDINATOR: (6, [FOUND]),
        ApiKey.INIT_PRODUCER_ID: (5, [given(ErrorCode.CONCURRENT_TRANSACTIONS)]),
    }
    with (
        broker(script, patience=0.0) as cluster,
        pytest.raises(KafkaError) as refused,
    ):
        fence(cluster, "x", 60_000)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_id_and_a_group_of_the_same_name_have_coordinators_of_their_own(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as found, Cluster.connect(found.address) as cluster:
        for name, error in describe_transactions(cluster, ["same"]).items():
            assert isinstance(error, KafkaError), name
            assert error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert set(cluster.coordinators) == {(1, "same")}
        describe_groups(cluster, ["same"])
        assert set(cluster.coordinators) == {(0, "same"), (1, "same")}


def test_what_has_ended_since_it_was_looked_at_does_not_hang(tmp_path: Path) -> None:
    with running(tmp_path) as found, Cluster.connect(found.address) as cluster:
        create_topics(cluster, ["orders"], partitions=1, replicas=1)
        producer = Producer({"bootstrap.servers": found.address, "transactional.id": "x"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"open")
        producer.flush(30)
        before = describe_producers(cluster, [ORDERS])[ORDERS]
        assert not isinstance(before, KafkaError)
        assert [each.start_offset for each in before] == [0]
        producer.commit_transaction(30)
        assert find_hanging(cluster, before) == []
