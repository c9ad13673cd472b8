"""Each key that pyk honours, with the values at the ends of its type: a broker refuses it in one
line before it starts, or works."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Final

import pytest

from pyk.config.broker import BROKER_KEYS, INTERNAL_KEYS
from pyk.config.keys import Key
from pyk.config.settings import BrokerSettings
from pyk.config.values import INT_MAX, LONG_MAX, ValueType
from pyk.errors import KafkaError
from pyk.testing import ApiKey, ErrorCode, serve_in_thread
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.clients.raw import RawClient
from tests.testing.asking import fetch, metadata, produce

ENDS: Final = {
    ValueType.BOOLEAN: ("true", "false"),
    ValueType.SHORT: (str(-(2**15)), "-1", "0", "1", str(2**15 - 1)),
    ValueType.INT: (str(-INT_MAX - 1), "-1", "0", "1", str(INT_MAX)),
    ValueType.LONG: (str(-LONG_MAX - 1), "-1", "0", "1", str(LONG_MAX)),
    ValueType.DOUBLE: ("NaN", "-Infinity", "-1", "0", "1", "Infinity"),
    ValueType.STRING: ("", "x", "::", "-1"),
    ValueType.LIST: ("", "x", ",", "org.apache.kafka.X"),
}
ASSIGNORS: Final = "group.consumer.assignors"
OWN: Final = frozenset({"listeners", "log.dir", "log.dirs"})
"""Where a test's broker is, it says itself."""

KEYS: Final = [
    key
    for key in (*BROKER_KEYS.values(), *INTERNAL_KEYS.values())
    if (key.honoured or key.is_internal) and key.name not in OWN
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_value_is_refused_before_the_start_or_does_no_harm(key: Key) -> None:
    for text in ENDS[key.type]:
        refusal = refusal_of(key, text)
        if refusal is None:
            work(key.name, text)
        else:
            assert ("node.id" if key.name == "broker.id" else key.name) in refusal
            assert "\n" not in refusal


def refusal_of(key: Key, text: str) -> str | None:
    try:
        BrokerSettings({key.name: text})
    except KafkaError as refusal:
        return str(refusal)
    return None


def work(name: str, text: str) -> None:
    """Raise BrokerFailed if a request is answered by a bug, or the broker dies."""
    with serve_in_thread({name: text}) as broker:
        # What is set may keep clients out, or their requests.
        for request in (use_topics, use_groups, use_transactions, use_queues):
            with suppress(EOFError, ConnectionError), RawClient(broker.bootstrap_servers) as client:
                request(client)
        broker.clock.advance(timedelta(days=1))
        broker.check()
        broker.restart()


def use_topics(client: RawClient) -> None:
    metadata(client, "orders")
    produce(client, "orders", 0, acks=-1)
    fetch(client, "orders", 0)


def use_groups(client: RawClient) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["shop"]))
    client.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id="shop", topics=[topic]))
    client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat_of("consumers"))
    # The first one is told its id. The generation begins after the delay, which nobody waits for.
    told = client.ask(ApiKey.JOIN_GROUP, 7, joining(""))
    client.send(ApiKey.JOIN_GROUP, 7, joining(told.member_id))


def heartbeat_of(group: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


def joining(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def use_transactions(client: RawClient) -> None:
    wanted = FindCoordinatorRequest(key_type=1, coordinator_keys=["shop"])
    client.ask(ApiKey.FIND_COORDINATOR, 4, wanted)
    request = InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=1000)
    client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)


def use_queues(client: RawClient) -> None:
    client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["queue"]))
    epoch = 0
    for _ in range(3):
        heartbeat = ShareGroupHeartbeatRequest(
            group_id="queue",
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=epoch,
            subscribed_topic_names=["orders"],
        )
        epoch = max(client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, heartbeat).member_epoch, 0)


def test_assignors_may_be_given_by_the_names_of_kafkas_classes() -> None:
    text = "org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform"
    assert BrokerSettings({ASSIGNORS: text}).config.consumer_assignors == ("range", "uniform")
    with (
        serve_in_thread({ASSIGNORS: text}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        metadata(client, "orders")
        client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
        answer = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat_of("g"))
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat_of("g"))
    assert answer.error_code == ErrorCode.NONE
