"""A coordinator of transactions without a loop, a disk or a network: a machine, its log, and
partitions that are told of outcomes when the test says so.

Records are kept as the bytes that a log would have, so that a restart reads what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyk.config.broker import BrokerConfig
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.coordinator.transactions.ending import End, ProducerIdNeeded
from pyk.coordinator.transactions.transaction import Transaction
from pyk.coordinator.transactions.transactions import (
    Caller,
    Marking,
    Surroundings,
    Transactions,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.end_txn import EndTxnResponse
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyk.wire.payloads.transaction_records import TransactionLogKey, TransactionLogValue
from pyk.wire.prefixed import by_record_type, decode_key, decode_value, encode_key, encode_value

ID = "copy"
FIRST_PRODUCER_ID = 100
MIDNIGHT_MS = 1_700_000_000_000
KEYS = by_record_type(TransactionLogKey)
A, B, C = (TopicPartition("orders", number) for number in range(3))


class Coordinator:
    def __init__(self, *, transaction_version: int = 2, **config: int) -> None:
        self.config = BrokerConfig(**config)
        self.transaction_version = transaction_version
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_refuses: ErrorCode | None = None
        self.now = 1000.0
        self.next_producer_id = FIRST_PRODUCER_ID
        self.marked: list[Marking] = []
        """Given out, and not carried out yet."""
        self._last_ticket = 0
        self._begin()

    def restart(self) -> None:
        """What was being told to partitions is forgotten."""
        self._begin()

    def _begin(self) -> None:
        self.marked = []
        self.machine = Transactions(
            Surroundings(
                config=lambda: self.config,
                now_ms=lambda: self.now_ms,
                transaction_version=lambda: self.transaction_version,
            )
        )
        for key, value in self.log:
            read = None if value is None else decode_value(TransactionLogValue, value)
            self.machine.apply(Record(decode_key(KEYS, key), read))
        self.machine.on_loaded(self.now)
        self.marked += self.machine.take_prepared()

    @property
    def now_ms(self) -> int:
        return MIDNIGHT_MS + int(self.now * 1000)

    @property
    def transaction(self) -> Transaction:
        found = self.machine.get(ID)
        assert found is not None
        return found

    @property
    def status(self) -> str:
        return self.transaction.status.title

    @property
    def last_record(self) -> TransactionLogValue | None:
        value = self.log[-1][1]
        return None if value is None else decode_value(TransactionLogValue, value)

    def pass_time(self, seconds: float) -> None:
        """Do what is due in that time, each when it is."""
        until = self.now + seconds
        while (deadline := self.machine.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._perform(self.machine.expire(self.now))
        self.now = until

    # What producers say

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        transactional_id: str = ID,
        timeout_ms: int = 60_000,
    ) -> tuple[int, int]:
        """The producer id and the epoch that are given. Raise KafkaError."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = self._ask_with_spare(
            lambda spare, ticket: self.machine.init_producer(request, spare, ticket, self.now)
        )
        assert isinstance(answer, InitProducerIdResponse)
        return answer.producer_id, answer.producer_epoch

    def add(
        self, producer_id: int, epoch: int, *partitions: TopicPartition, version: int = 2
    ) -> None:
        """Raise KafkaError."""
        caller = Caller(ID, producer_id, epoch)
        self._ask(
            lambda ticket: self.machine.add_partitions(
                caller, partitions, version, ticket, self.now
            )
        )

    def verify(
        self, producer_id: int, epoch: int, *partitions: TopicPartition
    ) -> frozenset[TopicPartition]:
        """Those that are not in the transaction. Raise KafkaError."""
        caller = Caller(ID, producer_id, epoch)
        missing: frozenset[TopicPartition] = self._ask(
            lambda ticket: self.machine.verify(caller, partitions, ticket, self.now)
        )
        return missing

    def end(
        self, producer_id: int, epoch: int, *, commit: bool, version: int = 2
    ) -> tuple[int, int]:
        """The producer id and the epoch to go on with. Raise KafkaError."""
        wanted = End(producer_id, epoch, commit, version)
        answer = self._ask_with_spare(
            lambda spare, ticket: self.machine.end(ID, wanted, spare, ticket, self.now)
        )
        assert isinstance(answer, EndTxnResponse)
        return answer.producer_id, answer.producer_epoch

    def commit(self, producer_id: int, epoch: int, *, version: int = 2) -> tuple[int, int]:
        return self.end(producer_id, epoch, commit=True, version=version)

    def abort(self, producer_id: int, epoch: int, *, version: int = 2) -> tuple[int, int]:
        return self.end(producer_id, epoch, commit=False, version=version)

    # What partitions are told

    def written(self, marking: Marking, *partitions: TopicPartition) -> None:
        self._perform(self.machine.written(marking, partitions, self.now))

    def tell_all(self) -> list[Marking]:
        """Let all partitions know of what was decided."""
        told, self.marked = self.marked, []
        for marking in told:
            self.written(marking, *marking.partitions)
        return told

    def _ask_with_spare(self, decide: Callable[[int | None, Ticket], Decision]) -> Any:
        answer = self._ask(lambda ticket: decide(None, ticket))
        if not isinstance(answer, ProducerIdNeeded):
            return answer
        self.next_producer_id += 1
        spare = self.next_producer_id - 1
        return self._ask(lambda ticket: decide(spare, ticket))

    def _ask(self, decide: Callable[[Ticket], Decision]) -> Any:
        self._last_ticket += 1
        answers = self._perform(decide(Ticket(self._last_ticket)))
        answer = answers[Ticket(self._last_ticket)]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def _perform(self, decision: Decision) -> dict[Ticket, Any]:
        if decision.records and self.log_refuses is not None:
            refusal = KafkaError(self.log_refuses)
            if decision.otherwise is None:
                return {ticket: refusal for ticket, _ in decision.replies}
            decision = decision.otherwise(refusal)
            assert not decision.records
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value, record.version)
            self.log.append((encode_key(record.key), value))
            self.machine.apply(record)
        self.marked += self.machine.take_prepared()
        return dict(decision.replies)


def refusal(do: Callable[[], Any]) -> ErrorCode | None:
    """What somebody hears who does that, or None if it is not refused."""
    try:
        do()
    except KafkaError as refused:
        return refused.code
    return None
