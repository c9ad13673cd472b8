r"""What is known of the delivery of some offsets, and what is decided about it.

AVAILABLE -> ACQUIRED -> ACKNOWLEDGED
     ^          |    \-> ARCHIVED
     '----------'
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.coordinator.share_state.batches import StateBatch

KEEP_START_OFFSET: Final = -1
"""What is written for a start offset that stays as it was written before."""


class RecordState(IntEnum):
    """Kafka's numbers for them."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED


class Acknowledge(IntEnum):
    """What a member says of a record that it has acquired."""

    GAP = 0
    """There is no record at that offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Limits(NamedTuple):
    """Of the group, as they are configured at the moment."""

    deliveries: int
    in_flight: int
    lock_duration: float


class Span(NamedTuple):
    base: int
    end: int


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One for all of the offsets, or one for each."""


class Reason(Enum):
    """Why nobody will get a record again."""

    DELIVERIES = "delivery count limit reached"
    REJECTED = "rejected"


class Dead(NamedTuple):
    base: int
    end: int
    delivery_count: int
    reason: Reason


class Delivery(Struct, frozen=True):
    """How far the delivery of some offsets is."""

    state: RecordState
    delivery_count: int = 0
    owner: str = ""
    deadline: float = 0.0
    """When the lock of the owner is over."""
    change: object = None
    """What they are in transition by. Until it is settled nothing else can happen to them."""

    @property
    def is_open(self) -> bool:
        """Whether they can be acquired."""
        return self.state is AVAILABLE and self.change is None

    @property
    def is_held(self) -> bool:
        """Whether they are acquired, and that is settled."""
        return self.state is ACQUIRED and self.change is None

    @property
    def is_complete(self) -> bool:
        """Whether they are to be delivered to nobody."""
        return self.state is ACKNOWLEDGED or self.state is ARCHIVED


NEW: Final = Delivery(AVAILABLE)


class Part(NamedTuple):
    """Offsets that change together, from what to what."""

    base: int
    end: int
    before: Delivery
    after: Delivery


class Change(Struct, eq=False):
    """What has been decided, and is to be persisted before it counts.

    Changes are to be written in the order in which they are made.
    """

    batches: list[StateBatch] = []
    start_offset: int = KEEP_START_OFFSET
    """As it is once the change is made. `KEEP_START_OFFSET` while that depends on another one."""
    delivery_complete_count: int = 0
    """As it is once the change is made, whatever comes of others that are not settled."""
    dead: list[Dead] = []
    parts: list[Part] = []
    """For `settle`."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to persist."""
        return not self.batches

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.persist(part.base, part.end, part.after)

    def persist(self, base: int, end: int, after: Delivery) -> None:
        """Nobody has acquired a record any more after a restart, but it counts as delivered."""
        batches, count = self.batches, after.delivery_count
        state = AVAILABLE if after.state is ACQUIRED else after.state
        if batches:
            first, last, *known = batches[-1]
            if last + 1 == base and known == [state, count]:
                batches[-1] = StateBatch(first, end - 1, state, count)
                return
        batches.append(StateBatch(base, end - 1, state, count))
