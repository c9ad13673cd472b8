"""The shape of a replicated machine: what it decides, and how that becomes its state.

    decide   looks at what a client asks for, or at the time, and makes a `Decision`
    append   the shell writes the decision's records to the log
    apply    the machine takes each record into its state
    answer   once the records are committed

Durable state changes by `apply` and by nothing else, so that loading is applying the whole log.
What is not worth a record (who has joined but has no assignment yet, when a session ends) is soft
state: a decision may change it at once, and it is gone after a restart. A log may refuse records,
so soft state must be right then too; `Decision.otherwise` is for what has to be done about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NewType, Protocol

from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import KafkaError
from pyk.log.guards import Guard
from pyk.metadata.image import ClusterImage
from pyk.wire.compression import Compression

Ticket = NewType("Ticket", int)
"""Who waits for an answer. A machine may answer later than it was asked, and many at once."""


class Record(NamedTuple):
    """What a log of an internal topic holds: messages of `pyk.wire.payloads`."""

    key: Any
    value: Any | None
    """None is a tombstone: what was there under the key is gone."""
    version: int = 0
    """Of the value."""
    producer_id: int | None = None
    """Whose transaction it belongs to: it counts when that is committed."""
    offset: int = -1
    """Where the log has it, when it is applied."""


class TransactionEnd(NamedTuple):
    """The key of a record that stands for a marker."""

    producer_id: int
    is_commit: bool


class InTransaction(NamedTuple):
    """The transaction in which records are written."""

    producer_id: int
    producer_epoch: int
    guard: Guard | None


class Reply(NamedTuple):
    ticket: Ticket
    response: Any


class Payload(NamedTuple):
    """Records as the log will hold them, all of one time."""

    data: bytes
    compression: Compression


class Decision(NamedTuple):
    records: Sequence[Record] = ()
    """All of them reach the log, or none."""
    replies: Sequence[Reply] = ()
    otherwise: Callable[[KafkaError], Decision] | None = None
    """What is decided instead if the log refuses the records. It has none itself. Without it, who
    was to be answered is refused, and if nobody was, whoever carries it out."""
    transaction: InTransaction | None = None
    """Where the records belong to one, all of them do."""
    payload: Payload | None = None
    """The records, if they are so many that they were encoded before."""


class Machine(Protocol):
    def apply(self, record: Record) -> None:
        """Take a fact into the state. It is total: whatever a log holds can be applied."""

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        """All of the log is applied. Compare it with the topics that there are: some may have gone
        while nobody looked. Others have their turn between the steps."""

    def on_loaded(self, now: float) -> None:
        """Clients come from now on."""

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        """The cluster has changed since the last image. What is to be written for that is due at
        once, and again if the log refuses it."""

    def deadline(self) -> float | None:
        """When `expire` has something to do, if nothing happens before."""

    def expire(self, now: float) -> Decision:
        """What follows from the passing of time: one thing of those that are due."""
