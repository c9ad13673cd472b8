"""Requests of transactions, and transactions that begin and end on both sides."""

from __future__ import annotations

from typing import Any, Final

from compat_tests.differential.comparison import Comparison, Make
from compat_tests.differential.requests import from_producer, produce
from compat_tests.differential.sides import Side, Sides, until
from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pyk.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pyk.wire.messages.describe_transactions import DescribeTransactionsRequest
from pyk.wire.messages.end_txn import EndTxnRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.list_transactions import ListTransactionsRequest
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pyk.wire.messages.produce import ProduceRequest
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

INIT, ADD, END = ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN
ADD_OFFSETS, COMMIT_OFFSETS = ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT
PRODUCE, FETCH, FETCH_OFFSETS = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_FETCH
DESCRIBE, LIST = ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS
PRODUCERS, MARKERS = ApiKey.DESCRIBE_PRODUCERS, ApiKey.WRITE_TXN_MARKERS
TOPIC, GROUP = "transacted", "transacted"
V1_ADD, V2_ADD, V1_END, V2_END = 3, 5, 4, 5
NOBODYS: Final = 2**40
"""A producer id that was never given out."""
TIMES = ("transaction_start_time_ms", "last_timestamp")
BUSY = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


def init(
    name: str,
    epoch: int | None = None,
    timeout_ms: int = 60_000,
    producer_id: int | None = None,
) -> Make:
    """As somebody new, or as somebody who has an epoch."""

    def make(version: int, side: Side) -> InitProducerIdRequest:
        known: dict[str, Any] = {}
        if epoch is not None:
            given = side.noted.get(name, NOBODYS) if producer_id is None else producer_id
            known = {"producer_id": given, "producer_epoch": epoch}
        return InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=timeout_ms, **known
        )

    return make


def add(
    name: str, epoch: int, *partitions: int, topic: str = TOPIC, verify: bool = False, **more: Any
) -> Make:
    def make(version: int, side: Side) -> AddPartitionsToTxnRequest:
        producer_id = more.get("producer_id", side.noted.get(name, NOBODYS))
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version < 4:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    return make


def verifying(make: Make) -> Make:
    """The same, but that nothing is added."""

    def verified(version: int, side: Side) -> AddPartitionsToTxnRequest:
        request = make(version, side)
        [only] = request.transactions
        asked = AddPartitionsToTxnTransaction(
            transactional_id=only.transactional_id,
            producer_id=only.producer_id,
            producer_epoch=only.producer_epoch,
            verify_only=True,
            topics=only.topics,
        )
        return AddPartitionsToTxnRequest(transactions=[asked])

    return verified


def end(name: str, epoch: int, commit: bool, producer_id: int | None = None) -> Make:
    def make(version: int, side: Side) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=name,
            producer_id=side.noted.get(name, NOBODYS) if producer_id is None else producer_id,
            producer_epoch=epoch,
            committed=commit,
        )

    return make


def write(
    name: str,
    epoch: int,
    sequence: int,
    partition: int,
    *,
    transactional: bool = True,
    producer_id: int | None = None,
    transactional_id: str | None = "",
) -> Make:
    def make(version: int, side: Side) -> ProduceRequest:
        given = side.noted.get(name, NOBODYS) if producer_id is None else producer_id
        batch = from_producer(given, sequence, epoch, is_transactional=transactional)
        request = produce(batch, topic=TOPIC, first=partition)(version, side)
        return ProduceRequest(
            transactional_id=name if transactional_id == "" else transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=request.topic_data,
        )

    return make


def describe(*names: str) -> Make:
    return lambda version, side: DescribeTransactionsRequest(transactional_ids=list(names))


def producers(*partitions: int, topic: str = TOPIC) -> Make:
    topics = [TopicRequest(name=topic, partition_indexes=list(partitions))]
    return lambda version, side: DescribeProducersRequest(topics=topics)


def listed(**filters: Any) -> Make:
    def make(version: int, side: Side) -> ListTransactionsRequest:
        known = {"state_filters": [], "producer_id_filters": [], **filters}
        if "producer_id_filters" in filters:
            known["producer_id_filters"] = [
                side.noted.get(each, NOBODYS) for each in filters["producer_id_filters"]
            ]
        return ListTransactionsRequest(**known)

    return make


def add_offsets(name: str, epoch: int, group_id: str = GROUP) -> Make:
    return lambda version, side: AddOffsetsToTxnRequest(
        transactional_id=name,
        producer_id=side.noted.get(name, NOBODYS),
        producer_epoch=epoch,
        group_id=group_id,
    )


def commit_offsets(
    name: str,
    epoch: int,
    offset: int,
    group_id: str = GROUP,
    topic: str = TOPIC,
    partition: int = 0,
    metadata: str | None = "noted",
    **more: Any,
) -> Make:
    def make(version: int, side: Side) -> TxnOffsetCommitRequest:
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group_id,
            producer_id=side.noted.get(name, NOBODYS),
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
            **(more if version >= 3 else {}),
        )

    return make


def fetch_offsets(group_id: str, *, stable: bool, every: bool = False) -> Make:
    def make(version: int, side: Side) -> OffsetFetchRequest:
        required: dict[str, Any] = {"require_stable": stable} if version >= 7 else {}
        if version < 8:
            topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
            return OffsetFetchRequest(
                group_id=group_id, topics=None if every else topics, **required
            )
        named = {"topic_id": side.id_of(TOPIC)} if version >= 10 else {"name": TOPIC}
        many = [OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None if every else many)
        return OffsetFetchRequest(groups=[group], **required)

    return make


def markers(
    name: str, epoch: int, commit: bool, *partitions: int, topic: str = TOPIC, **more: int
) -> Make:
    def make(version: int, side: Side) -> WriteTxnMarkersRequest:
        known = {"coordinator_epoch": 0, "transaction_version": 0, **more}
        if version < 2:
            known["transaction_version"] = 0
        marker = WritableTxnMarker(
            producer_id=side.noted.get(name, NOBODYS),
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
            **known,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    return make


def begin(sides: Sides, name: str, timeout_ms: int = 60_000) -> None:
    """Have a producer id on both sides, with an epoch of 0 if it is the first time."""

    def do(side: Side) -> None:
        answers: list[Any] = []

        def is_done() -> bool:
            answers.append(side.ask(INIT, 4, init(name, timeout_ms=timeout_ms)(4, side)))
            return answers[-1].error_code not in BUSY

        until(is_done)
        assert answers[-1].error_code == 0, answers[-1]
        side.noted[name] = answers[-1].producer_id

    sides.each(do)


def settle(sides: Sides, name: str) -> None:
    """Wait until all partitions know how the transaction has ended."""

    def is_settled(side: Side) -> bool:
        [found] = side.ask(DESCRIBE, 0, describe(name)(0, side)).transaction_states
        return bool(found.transaction_state.startswith("Complete"))

    sides.each(lambda side: until(lambda: is_settled(side)))


def look_at_offsets(compare: Comparison, case: str, group_id: str) -> None:
    for stable in (False, True):
        for every in (False, True):
            asked = fetch_offsets(group_id, stable=stable, every=every)
            compare.add(FETCH_OFFSETS, f"{case}, {stable}, {every}", asked, since=2)


class Scene:
    """One transactional id, asked about after each step."""

    def __init__(self, compare: Comparison, name: str, partition: int) -> None:
        self.compare, self.name, self.partition = compare, name, partition
        begin(compare.sides, name)

    def step(self, key: ApiKey, version: int, case: str, make: Make) -> None:
        self.compare.ask(key, version, f"{self.name}: {case}", make)

    def look(self, case: str) -> None:
        self.step(DESCRIBE, 0, case, describe(self.name))
        self.step(PRODUCERS, 0, case, producers(self.partition))

    def settle(self, case: str) -> None:
        settle(self.compare.sides, self.name)
        self.look(case)
