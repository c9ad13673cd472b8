"""What a member of a share group asks for, by which terms, and what it gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.log.segment import Piece
from pyk.log.transactions import AbortedTransaction
from pyk.replication.partition import Isolation
from pyk.sharing.delivery import Acquired, Limits
from pyk.sharing.start import StartingPoint
from pyk.types import Records


class Terms(NamedTuple):
    """What the group's configuration says now."""

    limits: Limits
    isolation: Isolation
    start: StartingPoint
    dead_letter_topic: str | None
    lock_timeout_ms: int
    """How long a member has a record for itself."""


class Wish(NamedTuple):
    """What a member wants to be handed."""

    member_id: str
    records_max: int
    batch_size: int
    is_strict: bool
    """Whether `records_max` may not be passed to hand out whole batches."""


class Seen(Struct, frozen=True):
    """What the log has from where the group goes on."""

    offset: int
    piece: Piece
    aborted: Sequence[AbortedTransaction]
    limits: Limits
    """By which it may be acquired."""


class Handed(Struct, frozen=True):
    """What a member gets."""

    acquired: Sequence[Acquired]
    records: Records
    records_count: int
    has_moved: bool
    """Whether the group is further than before, if only past what nobody is to see."""


NOTHING: Final = Handed((), b"", 0, False)
