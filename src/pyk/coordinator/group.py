"""What all kinds of groups have in common: what offsets, listings and deletions ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sized
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from pyk.config.broker import BrokerConfig
from pyk.config.group import GroupConfig
from pyk.coordinator.machine import Record
from pyk.coordinator.timers import Timers
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid

if TYPE_CHECKING:
    from random import Random

    from pyk.coordinator.classic.group import ClassicGroup

INLINE_MAX: Final = 5_000
"""Subscriptions and partitions together for which a target is made at once. It takes some 3
microseconds for each."""

PartitionCheck: TypeAlias = Callable[[str, Uuid, int], None]
"""Whether a partition of that topic may be committed. It raises KafkaError."""


class GroupType(Enum):
    """The names that ListGroups has for them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Caller(NamedTuple):
    """Who asks: what a group notes of its members, and the version that they speak."""

    version: int
    client_id: str
    host: str
    """As Kafka writes it, with a slash before the address."""


class Timer(NamedTuple):
    """Something that a group has to do at its time. `kind` belongs to the type of group."""

    group_id: str
    kind: str
    member_id: str = ""


class Group(Protocol):
    group_id: str

    @property
    def members(self) -> Sized: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state(self) -> str:
        """Kafka's name for it, such as Stable."""

    @property
    def protocol_type(self) -> str:
        """What its members are: `consumer`, `connect`, or nothing if it has offsets only."""

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int,
        is_transactional: bool,
    ) -> PartitionCheck | None:
        """Whether offsets may be committed by that member of that generation or epoch. Raise
        KafkaError, or return what each partition has to pass, if not all may be committed."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether that member may ask for offsets. Raise KafkaError."""

    def check_offset_delete(self) -> None:
        """Whether some of its offsets may be deleted. Raise KafkaError."""

    def check_delete(self) -> None:
        """Whether it may be deleted. Raise KafkaError."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offsets_age_from(self, commit_timestamp: int) -> int | None:
        """The time of day from which an offset that was committed then counts its age, in
        milliseconds, or None as long as it does not grow old."""

    def note_commit(self, member_id: str, now: float) -> None:
        """A member has committed, which for some is a sign of life."""

    def tombstones(self) -> list[Record]:
        """What deletes it, but for its offsets."""


class Surroundings:
    """What the groups of one shard share."""

    def __init__(
        self,
        *,
        config: Callable[[], BrokerConfig],
        group_config: Callable[[str], GroupConfig],
        rng: Random,
        now_ms: Callable[[], int],
        image: ClusterImage | None = None,
        inline_max: int = INLINE_MAX,
    ) -> None:
        """Targets of groups that take more than `inline_max` to make are made elsewhere."""
        self.config = config
        self.group_config = group_config
        self.rng = rng
        self.now_ms = now_ms
        """The time of day. What waits is measured by the `now` that machines are given."""
        self.image = image or ClusterImage()
        self.inline_max = inline_max
        self.groups: dict[str, Group] = {}
        self.staged: ClassicGroup | None = None
        """A classic group that is to be, until the record of it is applied, which does not have all
        that is known of its members. If the log refuses that, the next one takes its place here."""
        self.rebalances = 0
        """How many times a group has shared its work out anew."""
        self.timers: Timers[Timer] = Timers()
