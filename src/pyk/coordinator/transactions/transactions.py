"""The transactions of one shard, as a machine.

    init_producer   give a producer its id and epoch, and fence whoever had them before
    add_partitions  begin, or go on
    end             decide the outcome
    written         what partitions know of it, until all do

Outcomes are decided on the log first. `take_prepared` gives what partitions are then to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

from pyk.config.broker import BrokerConfig
from pyk.coordinator.machine import Decision, Record, Reply, Ticket, TransactionEnd
from pyk.coordinator.timers import Timers
from pyk.coordinator.topic_changes import TopicChanges
from pyk.coordinator.transactions.ending import (
    End,
    ProducerIdNeeded,
    ends_with_a_new_epoch,
    fenced,
    prepared,
)
from pyk.coordinator.transactions.listing import described
from pyk.coordinator.transactions.tally import Tally
from pyk.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NONE,
    Status,
    Transaction,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.types import TopicPartition
from pyk.wire.messages.end_txn import EndTxnResponse
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

CLEANING: Final = ""
"""No transactional id: when to look for those that are too old."""
CLEANED_AT_ONCE: Final = 100
RETRY_AFTER: Final = 10.0
"""When the log refuses what time asks for, seconds."""


class Surroundings(NamedTuple):
    """What a machine is given of its broker."""

    config: Callable[[], BrokerConfig]
    now_ms: Callable[[], int]
    transaction_version: Callable[[], int]
    """The version that the cluster has agreed on."""


class Caller(NamedTuple):
    """Which producer asks, and for which transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Marking(NamedTuple):
    """An outcome that partitions are to be told."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    is_resumed: bool
    """Somebody before a restart may have told some of them."""


class _Epochs(NamedTuple):
    """The epoch that a producer had before the one that it has: it may ask for this one again."""

    producer_id: int
    producer_epoch: int
    before: int


class Transactions:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._transactions: dict[str, Transaction] = {}
        self._outstanding: dict[str, set[TopicPartition]] = {}
        """Of prepared transactions: the partitions that are not known to know."""
        self._prepared: dict[str, bool] = {}
        """Those whose partitions nobody is telling yet, and whether that is from before a
        restart."""
        self._epochs: dict[str, _Epochs] = {}
        self._timers: Timers[str] = Timers()
        self.tally = Tally()

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # The machine

    def apply(self, record: Record) -> None:
        if isinstance(record.key, TransactionEnd):
            # WriteTxnMarkers takes any partition. Nothing is written here in a transaction.
            return
        transactional_id = record.key.transactional_id
        self._outstanding.pop(transactional_id, None)
        self._prepared.pop(transactional_id, None)
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            self._epochs.pop(transactional_id, None)
            return
        try:
            transaction = Transaction.read(record.key, record.value)
        except ValueError:
            # A status of versions to come. What was there before is the best that is known.
            return
        before = self._transactions.get(transactional_id)
        self.tally.note(before.status if before else None, transaction.status)
        self._transactions[transactional_id] = transaction
        if transaction.status.is_prepared:
            self._outstanding[transactional_id] = set(transaction.partitions)
            self._prepared[transactional_id] = False

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        return iter(())

    def on_loaded(self, now: float) -> None:
        """The time that nobody was there does not count: transactions have theirs anew."""
        self.tally = Tally()
        for transactional_id in self._prepared:
            self._prepared[transactional_id] = True
        for transaction in self:
            if transaction.status is Status.ONGOING:
                self._time_out_later(transaction, now)
        self._clean_later(now)

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        """Partitions of topics that are gone are not told."""

    def deadline(self) -> float | None:
        return self._timers.deadline()

    def expire(self, now: float) -> Decision:
        transactional_id = self._timers.take_due(now)
        if transactional_id is None:
            return Decision()
        if transactional_id == CLEANING:
            return self._clean(now)
        current = self._transactions.get(transactional_id)
        if current is None or current.status is not Status.ONGOING:
            return Decision()

        def try_later(_: KafkaError) -> Decision:
            self._timers.set(transactional_id, now + RETRY_AFTER)
            self.tally.timed_out -= 1
            return Decision()

        self.tally.timed_out += 1
        return Decision([self._fence(current)], otherwise=try_later)

    # What producers ask for

    def init_producer(
        self, request: InitProducerIdRequest, spare: int | None, ticket: Ticket, now: float
    ) -> Decision:
        """`spare` is a producer id that nobody has. Without one the answer may be that it takes
        one."""
        config, timeout_ms = self._surroundings.config(), request.transaction_timeout_ms
        if not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{timeout_ms} ms are not between 1 and {config.transaction_max_timeout_ms}",
            )
        transactional_id = request.transactional_id
        assert transactional_id
        current = self._transactions.get(transactional_id)
        if current is None:
            if spare is None:
                return _needs_producer_id(ticket)
            first = Transaction(
                transactional_id=transactional_id,
                producer_id=spare,
                producer_epoch=0,
                previous_producer_id=spare,
                timeout_ms=timeout_ms,
                updated_ms=self._surroundings.now_ms(),
            )
            return self._initialised(first, ticket)
        _check_producer_id(current, request)
        if current.status.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current.status is Status.ONGOING:
            self._check_epoch(current, request)
            retry = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return Decision([self._fence(current)], [Reply(ticket, retry)])
        return self._reinitialised(current, request, spare, ticket)

    def add_partitions(
        self,
        caller: Caller,
        partitions: Collection[TopicPartition],
        transaction_version: int,
        ticket: Ticket,
        now: float,
    ) -> Decision:
        """The answer is, as that of `verify`, which of them are not in the transaction: none."""
        current = self._of(caller)
        done = [Reply(ticket, frozenset[TopicPartition]())]
        if current.status is Status.ONGOING and current.partitions.issuperset(partitions):
            return Decision(replies=done)
        now_ms = self._surroundings.now_ms()
        if current.status is not Status.ONGOING:
            self._time_out_later(current, now)
        begun = current.becomes(
            Status.ONGOING,
            now_ms,
            partitions=current.partitions.union(partitions),
            started_ms=current.started_ms if current.status is Status.ONGOING else now_ms,
            client_version=transaction_version,
        )
        return Decision([self._record(begun)], done)

    def verify(
        self, caller: Caller, partitions: Collection[TopicPartition], ticket: Ticket, now: float
    ) -> Decision:
        """The answer is which of them are not in the transaction."""
        current = self._of(caller)
        missing = frozenset(partitions) - current.partitions
        return Decision(replies=[Reply(ticket, missing)])

    def end(
        self, transactional_id: str, end: End, spare: int | None, ticket: Ticket, now: float
    ) -> Decision:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        now_ms = self._surroundings.now_ms()
        ended = prepared(current, end, spare, now_ms)
        if isinstance(ended, ProducerIdNeeded):
            return _needs_producer_id(ticket)
        if ended is None:
            return Decision(replies=[Reply(ticket, _end_answer(current))])
        complete = ended.completed(now_ms)
        if complete.producer_epoch != current.producer_epoch:
            self._note_epoch(complete, before=current.producer_epoch)
        return Decision([self._record(ended)], [Reply(ticket, _end_answer(complete))])

    def describe(self, transactional_id: str, ticket: Ticket, now: float) -> Decision:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return Decision(replies=[Reply(ticket, described(current))])

    # What partitions are told

    def take_prepared(self) -> list[Marking]:
        """What nobody was given yet."""
        if not self._prepared:
            return []
        taken, self._prepared = self._prepared, {}
        return [
            _marking(self._transactions[transactional_id], is_resumed)
            for transactional_id, is_resumed in taken.items()
        ]

    @property
    def outstanding(self) -> int:
        """How many partitions are not known to know."""
        return sum(map(len, self._outstanding.values()))

    def is_outstanding(self, marking: Marking) -> bool:
        """Whether the transaction is not complete yet."""
        current = self._transactions.get(marking.transactional_id)
        return (
            current is not None
            and current.status.is_prepared
            and (current.producer_id, current.producer_epoch) == marking[1:3]
        )

    def written(
        self, marking: Marking, partitions: Collection[TopicPartition], now: float
    ) -> Decision:
        """These partitions know. When all do, the transaction is complete."""
        if not self.is_outstanding(marking):
            return Decision()
        outstanding = self._outstanding[marking.transactional_id]
        outstanding.difference_update(partitions)
        if outstanding:
            return Decision()
        current = self._transactions[marking.transactional_id]
        return Decision([self._record(current.completed(self._surroundings.now_ms()))])

    def _of(self, caller: Caller) -> Transaction:
        current = self._transactions.get(caller.transactional_id)
        if current is None or current.producer_id != caller.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if not current.is_held_by(caller.producer_epoch):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if current.status.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return current

    def _reinitialised(
        self,
        current: Transaction,
        request: InitProducerIdRequest,
        spare: int | None,
        ticket: Ticket,
    ) -> Decision:
        before = self._check_epoch(current, request)
        producer_id, epoch = current.producer_id, current.producer_epoch
        # After a transaction that timed out in the last epoch but one nobody may have the last.
        is_retried = before == self._before(current) != NONE and epoch != LAST_EPOCH
        if not is_retried:
            if not current.is_exhausted:
                epoch += 1
            elif spare is None:
                return _needs_producer_id(ticket)
            else:
                producer_id, epoch = spare, 0
        begun = current.becomes(
            Status.EMPTY,
            self._surroundings.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=request.transaction_timeout_ms,
            partitions=frozenset(),
            started_ms=NONE,
            next_producer_id=NONE,
        )
        self._note_epoch(begun, before)
        return self._initialised(begun, ticket)

    def _initialised(self, transaction: Transaction, ticket: Ticket) -> Decision:
        response = InitProducerIdResponse(
            producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
        )
        return Decision([self._record(transaction)], [Reply(ticket, response)])

    def _check_epoch(self, current: Transaction, request: InitProducerIdRequest) -> int:
        """The epoch that the producer says it has, or -1. Raise KafkaError unless that is the one
        that the id has, or the one before, whose producer may not have heard of this one."""
        epoch = request.producer_epoch
        if request.producer_id == NONE:
            return NONE
        if request.producer_id == current.producer_id and epoch == current.producer_epoch:
            return epoch
        if epoch == self._before(current):
            return epoch
        raise KafkaError(ErrorCode.PRODUCER_FENCED)

    def _before(self, current: Transaction) -> int:
        known = self._epochs.get(current.transactional_id)
        if known is None or known[:2] != (current.producer_id, current.producer_epoch):
            return NONE
        return known.before

    def _note_epoch(self, transaction: Transaction, before: int) -> None:
        """If the log refuses this one, what is noted is for an epoch that nobody has."""
        self._epochs[transaction.transactional_id] = _Epochs(
            transaction.producer_id, transaction.producer_epoch, before
        )

    def _fence(self, current: Transaction) -> Record:
        version = self._surroundings.transaction_version()
        ended = fenced(current, version, self._surroundings.now_ms())
        if ends_with_a_new_epoch(version):
            self._note_epoch(ended, before=current.producer_epoch)
        return self._record(ended)

    def _record(self, transaction: Transaction) -> Record:
        return transaction.record(version=min(self._surroundings.transaction_version(), 1))

    def _time_out_later(self, transaction: Transaction, now: float) -> None:
        self._timers.set(transaction.transactional_id, now + transaction.timeout_ms / 1000)

    # What is too old

    def _clean_later(self, now: float) -> None:
        config = self._surroundings.config()
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set(CLEANING, now + interval_ms / 1000)

    def _clean(self, now: float) -> Decision:
        """Forget some of the ids that nobody has used for long, and others later."""
        expiration_ms = self._surroundings.config().transactional_id_expiration_ms
        before_ms = self._surroundings.now_ms() - expiration_ms
        old = [
            Record(transaction.key, None)
            for transaction in islice(
                (t for t in self if t.status.is_at_rest and t.updated_ms <= before_ms),
                CLEANED_AT_ONCE,
            )
        ]
        if len(old) == CLEANED_AT_ONCE:
            self._timers.set(CLEANING, now)
        else:
            self._clean_later(now)

        def try_later(_: KafkaError) -> Decision:
            self._clean_later(now)
            return Decision()

        return Decision(old, otherwise=try_later)


def _marking(transaction: Transaction, is_resumed: bool) -> Marking:
    return Marking(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        is_commit=transaction.status is Status.PREPARE_COMMIT,
        partitions=tuple(sorted(transaction.partitions)),
        transaction_version=transaction.client_version,
        is_resumed=is_resumed,
    )


def _check_producer_id(current: Transaction, request: InitProducerIdRequest) -> None:
    """Raise KafkaError if the producer has an id that this transactional id has no more. It may
    have had one whose epochs are used up, and not know the one that followed."""
    if request.producer_id in (NONE, current.producer_id):
        return
    is_the_one_before = request.producer_id == current.previous_producer_id
    if not is_the_one_before or request.producer_epoch < LAST_EPOCH - 1:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _needs_producer_id(ticket: Ticket) -> Decision:
    return Decision(replies=[Reply(ticket, ProducerIdNeeded())])


def _end_answer(transaction: Transaction) -> EndTxnResponse:
    return EndTxnResponse(
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
    )
