"""A coordinator of share partitions without a loop, a disk or a network: a machine and its log.

Records are kept as the bytes that a log would have, so that a restart reads what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pyk.config.broker import BrokerConfig
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.coordinator.share_coordinator import RECORD_TYPES
from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.share_states import ShareStates, Surroundings
from pyk.coordinator.share_state.state import Progress, SharePartition, ShareState, Summary
from pyk.coordinator.topic_changes import topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.types import Uuid
from pyk.wire.prefixed import decode_key, decode_value, encode_key, encode_value

MIDNIGHT_MS = 1_700_000_000_000
ORDERS, INVOICES = Uuid(b"orders' topic id"), Uuid(b"invoices' id ...")
PARTITIONS = 3
KEY = SharePartitionKey("workers", ORDERS, 0)
OTHER = SharePartitionKey("workers", ORDERS, 1)
INVOICE = SharePartitionKey("workers", INVOICES, 0)


def image_of(*topics: Uuid) -> ClusterImage:
    partitions = (PartitionState((1,), (1,), 1),) * PARTITIONS
    made = [Topic(f"topic-{topic[0]}", topic, partitions, 1) for topic in topics]
    return ClusterImage(
        topics={topic.name: topic for topic in made},
        names={topic.topic_id: topic.name for topic in made},
    )


class Coordinator:
    def __init__(self, **config: int) -> None:
        self.config = BrokerConfig(
            **{f"share_coordinator_{name}": value for name, value in config.items()}
        )
        self.image = image_of(ORDERS, INVOICES)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_start = 0
        """What was before is gone, and offsets are as they were."""
        self.log_refuses: ErrorCode | None = None
        self.now = 1000.0
        self.together: list[int] = []
        """How many records each batch of the log has."""
        self._last_ticket = 0
        self._begin()

    def restart(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.machine = ShareStates(
            Surroundings(
                config=lambda: self.config,
                now_ms=lambda: self.now_ms,
                image=lambda: self.image,
            )
        )
        for record in self.records:
            self.machine.apply(record)
        self.machine.on_loaded(self.now)

    @property
    def now_ms(self) -> int:
        return MIDNIGHT_MS + int(self.now * 1000)

    @property
    def records(self) -> list[Record]:
        """What the log has."""
        return [
            _decoded(*self.log[offset], offset) for offset in range(self.log_start, len(self.log))
        ]

    @property
    def values(self) -> list[Any]:
        return [record.value for record in self.records]

    @property
    def kinds(self) -> list[str]:
        return [_kind(record) for record in self.records]

    def known(self, key: SharePartitionKey = KEY) -> SharePartition:
        found = self.machine.get(key)
        assert found is not None
        return found

    def pass_time(self, seconds: float) -> None:
        """Do what is due in that time, each when it is."""
        until = self.now + seconds
        while (deadline := self.machine.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._perform(self.machine.expire(self.now))
        self.now = until

    def show(self, *topics: Uuid) -> None:
        """Let there be these topics, and no others."""
        before, self.image = self.image, image_of(*topics)
        self.machine.on_image(self.image, topic_changes(before, self.image), self.now)
        self._perform(self.machine.expire(self.now))

    def prune(self) -> None:
        self.log_start = max(self.log_start, self.machine.needed_from)

    # What is asked

    def initialize(
        self, key: SharePartitionKey = KEY, *, state_epoch: int = 0, start_offset: int = 0
    ) -> None:
        """Raise KafkaError."""
        self._ask(
            lambda ticket: self.machine.initialize(key, state_epoch, start_offset, ticket, self.now)
        )

    def read(self, key: SharePartitionKey = KEY, *, leader_epoch: int = 0) -> ShareState:
        """Raise KafkaError."""
        found: ShareState = self._ask(
            lambda ticket: self.machine.read(key, leader_epoch, ticket, self.now)
        )
        return found

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        delivery_complete_count: int = 0,
    ) -> None:
        """Raise KafkaError."""
        progress = Progress(
            state_epoch, leader_epoch, start_offset, delivery_complete_count, batches
        )
        self._ask(lambda ticket: self.machine.write(key, progress, ticket, self.now))

    def summary(self, key: SharePartitionKey = KEY) -> Summary:
        """Raise KafkaError."""
        found: Summary = self._ask(lambda ticket: self.machine.summary(key, ticket, self.now))
        return found

    def delete(self, key: SharePartitionKey = KEY) -> None:
        """Raise KafkaError."""
        self._ask(lambda ticket: self.machine.delete(key, ticket, self.now))

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
        self.together.append(len(decision.records))
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value, record.version)
            self.log.append((encode_key(record.key), value))
            self.machine.apply(record._replace(offset=len(self.log) - 1))
        return dict(decision.replies)


def refusal(do: Callable[[], Any]) -> ErrorCode | None:
    """What somebody hears who does that, or None if it is not refused."""
    try:
        do()
    except KafkaError as refused:
        return refused.code
    return None


def states(
    machine: ShareStates, keys: Collection[SharePartitionKey]
) -> dict[SharePartitionKey, tuple[Any, ...] | None]:
    """All that clients can see of these partitions, and whom they fence."""
    return {key: _seen(machine.get(key)) for key in keys}


def _seen(partition: SharePartition | None) -> tuple[Any, ...] | None:
    if partition is None:
        return None
    epochs = partition.state_epoch_seen, partition.leader_epoch_seen
    return partition.state, partition.summary, epochs


def _decoded(key: bytes, value: bytes | None, offset: int) -> Record:
    read = decode_key(RECORD_TYPES.keys, key)
    assert read is not None
    decoded: Any = None if value is None else decode_value(RECORD_TYPES.values[type(read)], value)
    return Record(read, decoded, offset=offset)


def _kind(record: Record) -> str:
    if record.value is None:
        return "tombstone"
    return type(record.value).__name__.removeprefix("Share").removesuffix("Value").lower()
