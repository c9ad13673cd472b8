"""Transactions that hang: a partition has one open of which its coordinator knows nothing.

Nobody who speaks to a broker of today leaves one behind: a write is refused unless its coordinator
knows of it (KIP-890). So it takes a broker that was told not to ask, by `UNVERIFIED`.
"""

from __future__ import annotations

import time
from typing import Final

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from tests.clients.raw import RawClient

UNVERIFIED: Final = {"transaction.partition.verification.enable": "false"}
AN_HOUR_MS: Final = 3_600_000
WAIT: Final = 90.0
_TRANSACTIONS = 1
_NOT_LED_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_COMING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def hang(address: str, topic: str, transactional_id: str, *, age_ms: int = AN_HOUR_MS) -> int:
    """Write three records of that age to partition 0, in a transaction that was never begun. The
    producer id that they have."""
    with RawClient(address) as client:
        producer = initialised(client, transactional_id)
        code = write(client, topic, transactional_id, producer, age_ms=age_ms)
        assert code is ErrorCode.NONE, code
        return producer[0]


def initialised(client: RawClient, transactional_id: str) -> tuple[int, int]:
    """A producer id and its epoch, once there is a coordinator."""
    find = FindCoordinatorRequest(key_type=_TRANSACTIONS, coordinator_keys=[transactional_id])
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + WAIT
    while True:
        client.ask(ApiKey.FIND_COORDINATOR, 4, find)
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, init)
        if answer.error_code not in _COMING:
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
            return answer.producer_id, answer.producer_epoch
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.05)


def write(
    client: RawClient,
    topic: str,
    transactional_id: str,
    producer: tuple[int, int],
    *,
    age_ms: int = AN_HOUR_MS,
) -> ErrorCode:
    """What the partition says to the first three records of a transaction that was never begun,
    once somebody leads it."""
    timestamp = int(time.time() * 1000) - age_ms
    batch = build_batch(
        [Record(number, timestamp, None, b"hanging") for number in range(3)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        is_transactional=True,
    )
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    deadline = time.monotonic() + WAIT
    while True:
        answer = client.ask(ApiKey.PRODUCE, 9, request)
        ((written,),) = (each.partition_responses for each in answer.responses)
        code = ErrorCode(written.error_code)
        # Kafka's broker hears of a new topic a moment after its controller has made it.
        if code not in _NOT_LED_YET or time.monotonic() > deadline:
            return code
        time.sleep(0.05)
