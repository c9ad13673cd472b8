"""What members of share groups say of the records that they have, in the two requests that do."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.sharing.delivery import Acknowledge, Acknowledgement
from pyk.sharing.sessions import SessionKey, SharedPartition, ShareSession
from pyk.types import Uuid

if TYPE_CHECKING:
    from pyk.metadata.image import Topic

MEMBER_ID_LENGTH_MAX: Final = 36

Outcome: TypeAlias = KafkaError | None
"""What became of the acknowledgements of a partition: None if they are taken."""
Outcomes: TypeAlias = dict[SharedPartition, Outcome]
Pending: TypeAlias = dict[SharedPartition, Awaitable[None]]


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


def acknowledge(
    said: Iterable[SaidOfTopic],
    key: SessionKey,
    call: Call,
    broker: Context,
    *,
    is_renewal: bool,
) -> tuple[Outcomes, Pending]:
    """What became of all that is acknowledged, and what is not decided yet."""
    outcomes: Outcomes = {}
    pending: Pending = {}
    said = list(said)
    says_something = any(
        each.acknowledgement_batches for topic in said for each in topic.partitions
    )
    for topic in said:
        found = broker.image.topic_by_id(topic.topic_id)
        for each in topic.partitions:
            partition = SharedPartition(topic.topic_id, each.partition_index)
            try:
                outcome = _acknowledge(each, found, key, call, broker, is_renewal=is_renewal)
            except KafkaError as refusal:
                outcomes[partition] = refusal
                continue
            if says_something:
                outcomes[partition] = None
            if outcome is not None:
                pending[partition] = outcome
    return outcomes, pending


def _acknowledge(
    said: Said,
    topic: Topic | None,
    key: SessionKey,
    call: Call,
    broker: Context,
    *,
    is_renewal: bool,
) -> Awaitable[None] | None:
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    highest = Acknowledge.RENEW if knows_renewal(call) else Acknowledge.REJECT
    batches = _checked(said.acknowledgement_batches, highest, is_renewal=is_renewal)
    if not 0 <= said.partition_index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not batches:
        return None
    share = broker.shares.known(key.group_id, topic, said.partition_index)
    return share.acknowledge(key.member_id, batches)


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


async def settle(outcomes: Outcomes, pending: Pending) -> Outcomes:
    """The outcomes when nothing is pending any more."""
    for partition, wait in pending.items():
        try:
            await wait
        except KafkaError as refusal:
            outcomes[partition] = refusal
    return outcomes


async def release(session: ShareSession, broker: Context) -> None:
    """End a session, as its member asks for."""
    for wait in broker.shares.end_session(session):
        await wait
