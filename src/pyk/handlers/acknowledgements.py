"""What members of share groups say of the records that they have, in the two requests that do."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.sharing.delivery import Acknowledge, Acknowledgement, Change
from pyk.sharing.sessions import SessionKey, SharedPartition, ShareSession
from pyk.types import Uuid

if TYPE_CHECKING:
    from pyk.metadata.image import Topic
    from pyk.sharing.share import Share

MEMBER_ID_LENGTH_MAX: Final = 36
PARTITIONS_AT_ONCE: Final = 64
"""How many partitions of one request are seen to before others have their turn."""

Outcome: TypeAlias = KafkaError | None
"""What became of the acknowledgements of a partition: None if they are taken."""
Outcomes: TypeAlias = dict[SharedPartition, Outcome]


class Batch(Protocol):
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> list[int]: ...


class Said(Protocol):
    """Of a partition."""

    @property
    def partition_index(self) -> int: ...
    @property
    def acknowledgement_batches(self) -> Sequence[Batch]: ...


class SaidOfTopic(Protocol):
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partitions(self) -> Sequence[Said]: ...


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Raise KafkaError."""
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id or "", member_id)


def knows_renewal(call: Call) -> bool:
    """KIP-1222."""
    return call.version >= 2


class Acknowledged:
    """What becomes of all that one request acknowledges: decided, persisted, and then told."""

    def __init__(self) -> None:
        self.outcomes: Outcomes = {}
        self.pending: dict[SharedPartition, Awaitable[None]] = {}
        """What is not persisted at once."""
        self._heard: dict[SharedPartition, tuple[Share, Change]] = {}
        """What is decided, and nobody has begun to persist."""

    def hear(self, partition: SharedPartition, share: Share, change: Change) -> None:
        if partition in self._heard:
            self._keep(partition)  # It is named twice: one after the other.
        self._heard[partition] = share, change

    def keep(self, *, records_max: int = 0) -> None:
        """Begin to persist what is not yet. Who is about to fetch so many records leaves what may
        be persisted with them."""
        for partition, (share, change) in list(self._heard.items()):
            if not share.may_join(change, records_max):
                self._keep(partition)

    def take(self, partition: SharedPartition, share: Share) -> Change | None:
        """What is to be persisted with what its member is handed out now of the share. It may be
        another one by now than that which heard it."""
        if partition not in self._heard or self._heard[partition][0] is not share:
            return None
        return self._heard.pop(partition)[1]

    async def settle(self) -> Outcomes:
        """The outcomes when nothing is pending any more."""
        for partition, wait in self.pending.items():
            try:
                await wait
            except KafkaError as refusal:
                self.outcomes[partition] = refusal
        self.pending.clear()
        return self.outcomes

    def _keep(self, partition: SharedPartition) -> None:
        share, change = self._heard.pop(partition)
        try:
            kept = share.carry_out(change)
        except KafkaError as refusal:
            self.outcomes[partition] = refusal
        else:
            if kept is not None:
                self.pending[partition] = kept


def hear(
    said: Iterable[SaidOfTopic],
    key: SessionKey,
    call: Call,
    broker: Context,
    *,
    is_renewal: bool,
) -> Acknowledged:
    """Decide about all that is acknowledged. It is to be kept."""
    acknowledged = Acknowledged()
    said = list(said)
    says_something = acknowledges(said)
    for topic in said:
        found = broker.image.topic_by_id(topic.topic_id)
        for each in topic.partitions:
            partition = SharedPartition(topic.topic_id, each.partition_index)
            try:
                heard = _hear(each, found, key, call, broker, is_renewal=is_renewal)
            except KafkaError as refusal:
                acknowledged.outcomes[partition] = refusal
                continue
            if says_something:
                acknowledged.outcomes[partition] = None
            if heard is not None:
                acknowledged.hear(partition, *heard)
    return acknowledged


async def hear_in_turns(
    said: Iterable[SaidOfTopic],
    key: SessionKey,
    call: Call,
    broker: Context,
    *,
    is_renewal: bool,
) -> Acknowledged:
    """Decide about all that is acknowledged, and begin to keep it, some partitions at a time. What
    is decided of a partition is kept in the same breath."""
    acknowledged = Acknowledged()
    for topic in said:
        for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            some = _Some(topic.topic_id, topic.partitions[start : start + PARTITIONS_AT_ONCE])
            heard = hear([some], key, call, broker, is_renewal=is_renewal)
            heard.keep()
            acknowledged.outcomes.update(heard.outcomes)
            acknowledged.pending.update(heard.pending)
            await trio.lowlevel.checkpoint()
    return acknowledged


class _Some(NamedTuple):
    topic_id: Uuid
    partitions: Sequence[Said]


def acknowledges(said: Iterable[SaidOfTopic]) -> bool:
    return any(each.acknowledgement_batches for topic in said for each in topic.partitions)


def is_wide(said: Iterable[SaidOfTopic]) -> bool:
    """Whether it speaks of more partitions than may be seen to in one turn."""
    return sum(len(topic.partitions) for topic in said) > PARTITIONS_AT_ONCE


def _hear(
    said: Said,
    topic: Topic | None,
    key: SessionKey,
    call: Call,
    broker: Context,
    *,
    is_renewal: bool,
) -> tuple[Share, Change] | None:
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    highest = Acknowledge.RENEW if knows_renewal(call) else Acknowledge.REJECT
    batches = _checked(said.acknowledgement_batches, highest, is_renewal=is_renewal)
    if not 0 <= said.partition_index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not batches:
        return None
    share = broker.shares.known(key.group_id, topic, said.partition_index)
    return share, share.hear(key.member_id, batches)


def _checked(
    batches: Sequence[Batch], highest: Acknowledge, *, is_renewal: bool
) -> list[Acknowledgement]:
    """Raise KafkaError."""
    checked = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if (
            not previous <= first <= last
            or not types
            or (len(types) > 1 and last - first != len(types) - 1)
            or not all(0 <= each <= highest for each in types)
            or (Acknowledge.RENEW in types and not is_renewal)
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        checked.append(Acknowledgement(first, last, types))
        previous = last
    return checked


async def release(session: ShareSession, broker: Context) -> None:
    """End a session, as its member asks for."""
    rest = broker.shares.end_session(session)
    if rest is not None:
        await rest
