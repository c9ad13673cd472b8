"""Whatever the order of requests, retries, time-outs, restarts and zombies: what must not happen.

Partitions are small models of what logs do with epochs and markers. Requests may be delivered late
and twice, and markers are told to partitions one by one, at any time, by coordinators of which the
older may still be at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pyk.coordinator.transactions.transactions import Marking
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from tests.coordinator.transactions.coordinator import ID, A, B, C, Coordinator

PARTITIONS = (A, B, C)
TIMEOUT_MS = 60_000


@dataclass
class Model:
    """A partition: the batches of its transactions, and what became of them."""

    open: dict[int, dict[int, int]] = field(default_factory=dict)
    """The numbers and epochs of batches, by producer id."""
    epochs: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=dict)
    """Of batches: whether they were committed."""
    markers: list[tuple[int, int, bool]] = field(default_factory=list)
    of_zombies: list[int] = field(default_factory=list)
    """Batches that were committed by another producer than theirs."""

    def append(self, producer_id: int, epoch: int, batch: int) -> None:
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, {})[batch] = epoch

    def mark(self, marking: Marking) -> None:
        producer_id, epoch = marking.producer_id, marking.producer_epoch
        if epoch < self.epochs.get(producer_id, -1):
            return
        is_same = epoch == self.epochs.get(producer_id, -1)
        if marking.transaction_version >= 2 and is_same and self.open.get(producer_id):
            return
        if marking.is_resumed and is_same and not self.open.get(producer_id):
            return
        self.epochs[producer_id] = epoch
        self.markers.append((producer_id, epoch, marking.is_commit))
        own = epoch - 1 if marking.transaction_version >= 2 else epoch
        for batch, written in self.open.pop(producer_id, {}).items():
            self.outcomes[batch] = marking.is_commit
            if marking.is_commit and written != own:
                self.of_zombies.append(batch)


@dataclass
class Producer:
    """A client, which may not know yet that it has been replaced."""

    version: int
    producer_id: int
    epoch: int
    batches: list[int] = field(default_factory=list)
    """Of the transaction that it believes it has."""


@dataclass(frozen=True)
class Sent:
    """An EndTxn that may arrive at any time, and again."""

    version: int
    producer_id: int
    epoch: int
    is_commit: bool
    batches: tuple[int, ...]


class AnyHistory(RuleBasedStateMachine):
    producers: Bundle[Producer] = Bundle("producers")
    ends: Bundle[Sent] = Bundle("ends")

    versions: tuple[int, ...] = (2,)
    names_transactions = True
    """Whether producer id and epoch name one transaction, as they do in v2."""

    @initialize()
    def begin(self) -> None:
        self.coordinator = Coordinator(transaction_max_timeout_ms=10**7)
        self.partitions = {partition: Model() for partition in PARTITIONS}
        self.last_batch = 0
        self.acknowledged: dict[int, bool] = {}
        """What clients were told of their batches."""
        self.told: set[tuple[Marking, TopicPartition]] = set()

    @rule(target=producers, data=st.data())
    def init(self, data: st.DataObject) -> Producer:
        """A new producer comes: the machine is asked until it has an answer."""
        while True:
            try:
                producer_id, epoch = self.coordinator.init(timeout_ms=TIMEOUT_MS)
            except KafkaError as refusal:
                if refusal.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                self._tell_all()
            else:
                return Producer(data.draw(st.sampled_from(self.versions)), producer_id, epoch)

    @rule(producer=producers, partition=st.sampled_from(PARTITIONS))
    def write(self, producer: Producer, partition: TopicPartition) -> None:
        """The partition is added or verified, and written to in the same moment."""
        try:
            self.coordinator.add(
                producer.producer_id, producer.epoch, partition, version=producer.version
            )
        except KafkaError:
            return
        model = self.partitions[partition]
        if producer.epoch < model.epochs.get(producer.producer_id, -1):
            return
        self.last_batch += 1
        producer.batches.append(self.last_batch)
        model.append(producer.producer_id, producer.epoch, self.last_batch)

    @rule(producer=producers, partition=st.sampled_from(PARTITIONS))
    def write_late(self, producer: Producer, partition: TopicPartition) -> None:
        """A batch that its client has given up on. It may only become part of an open transaction
        of the same epoch, as if it had come earlier."""
        model = self.partitions[partition]
        if producer.epoch < model.epochs.get(producer.producer_id, -1):
            return
        try:
            missing = self.coordinator.verify(producer.producer_id, producer.epoch, partition)
        except KafkaError:
            return
        if not missing:
            self.last_batch += 1
            model.append(producer.producer_id, producer.epoch, self.last_batch)

    @rule(target=ends, producer=producers, is_commit=st.booleans())
    def send_end(self, producer: Producer, is_commit: bool) -> Sent:
        sent = Sent(
            producer.version,
            producer.producer_id,
            producer.epoch,
            is_commit,
            tuple(producer.batches),
        )
        answer = self._deliver(sent)
        if answer is not None:
            producer.producer_id, producer.epoch = answer
            producer.batches = []
        return sent

    @rule(end=ends)
    def deliver_again(self, end: Sent) -> None:
        self._deliver(end)

    def _deliver(self, sent: Sent) -> tuple[int, int] | None:
        try:
            answer = self.coordinator.end(
                sent.producer_id, sent.epoch, commit=sent.is_commit, version=sent.version
            )
        except KafkaError:
            return None
        for batch in sent.batches:
            self.acknowledged.setdefault(batch, sent.is_commit)
            if self.names_transactions:
                assert self.acknowledged[batch] == sent.is_commit, "told two outcomes"
        return answer

    @rule(seconds=st.sampled_from([1.0, 50.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.coordinator.pass_time(seconds)

    @rule()
    def restart(self) -> None:
        """What the one before was at is not taken back: it may have told some partitions."""
        self.coordinator.restart()

    @rule(data=st.data())
    def tell_one(self, data: st.DataObject) -> None:
        if self.coordinator.marked:
            marking = data.draw(st.sampled_from(self.coordinator.marked))
            self._tell(marking, data.draw(st.sampled_from(PARTITIONS)))

    @rule()
    def tell_all(self) -> None:
        self._tell_all()

    def _tell_all(self) -> None:
        for marking in list(self.coordinator.marked):
            for partition in PARTITIONS:
                self._tell(marking, partition)
            self.coordinator.written(marking)

    def _tell(self, marking: Marking, partition: TopicPartition) -> None:
        told = (marking, partition)
        is_due = partition in marking.partitions and self.coordinator.machine.is_outstanding(
            marking
        )
        if is_due:
            if told not in self.told or not self.names_transactions:
                self.partitions[partition].mark(marking)
            self.told.add(told)
            self.coordinator.written(marking, partition)
        if not self.coordinator.machine.is_outstanding(marking):
            self.coordinator.marked = [m for m in self.coordinator.marked if m is not marking]

    @invariant()
    def what_clients_were_told_is_so(self) -> None:
        for model in self.partitions.values() if self.names_transactions else ():
            for batch, outcome in model.outcomes.items():
                assert self.acknowledged.get(batch, outcome) == outcome, "not what was said"

    @invariant()
    def no_transaction_is_torn(self) -> None:
        outcomes: dict[tuple[int, int], bool] = {}
        for model in self.partitions.values() if self.names_transactions else ():
            for producer_id, epoch, is_commit in model.markers:
                known = outcomes.setdefault((producer_id, epoch), is_commit)
                assert known == is_commit, "committed here and aborted there"

    @invariant()
    def each_partition_is_told_once(self) -> None:
        for model in self.partitions.values() if self.names_transactions else ():
            ends = [(producer_id, epoch) for producer_id, epoch, _ in model.markers]
            assert len(ends) == len(set(ends)), "two markers for one transaction"

    @invariant()
    def nobody_commits_what_a_zombie_wrote(self) -> None:
        assert not any(model.of_zombies for model in self.partitions.values())

    @invariant()
    def nothing_hangs(self) -> None:
        """What is open in a partition is open, or being ended, at the coordinator."""
        current = self.coordinator.machine.get(ID)
        for partition, model in self.partitions.items():
            for producer_id in model.open:
                assert current is not None
                assert current.producer_id == producer_id
                assert partition in current.partitions, "nobody will ever end it"

    def teardown(self) -> None:
        """At the end everything can be brought to an end."""
        if not hasattr(self, "coordinator"):
            return
        self.coordinator.restart()
        self.coordinator.pass_time(TIMEOUT_MS / 1000 + 1)
        self._tell_all()
        for model in self.partitions.values():
            assert not model.open
        current: Any = self.coordinator.machine.get(ID)
        assert current is None or current.status.is_at_rest


class AnyHistoryOfBothVersions(AnyHistory):
    """Clients of v1 among others. Theirs may be told what became of another transaction, which is
    the known hole of v1. But nothing hangs, and everything ends."""

    versions = (0, 2)
    names_transactions = False


TestBothVersions = AnyHistoryOfBothVersions.TestCase
TestBothVersions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

TestTransactionsV2 = AnyHistory.TestCase
TestTransactionsV2.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
