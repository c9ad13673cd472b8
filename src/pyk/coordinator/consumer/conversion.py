"""From a classic group to a consumer group and back, while its members are at work (KIP-848).

A classic group becomes a consumer group when the first member comes that speaks the new protocol:
its generation is the epoch, and what its leader has shared out is the target. A consumer group
becomes a classic one when the last such member has gone, and is rebalanced as that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyk.config.broker import BrokerConfig
from pyk.coordinator.assigned import NEVER
from pyk.coordinator.classic.generation import CONSUMER, Generation
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.member import Member as ClassicMember
from pyk.coordinator.classic.member import session_of
from pyk.coordinator.classic.rebalance import JOIN
from pyk.coordinator.consumer import records
from pyk.coordinator.consumer.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_to_answer,
)
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.coordinator.group import Surroundings, Timer
from pyk.coordinator.machine import Record
from pyk.coordinator.metadata_hash import TopicHashes
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.metadata.image import ClusterImage
from pyk.wire.payloads.consumer_group_records import ClassicMemberMetadata, ClassicProtocol

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")


def check_upgrade(group: ClassicGroup, config: BrokerConfig) -> None:
    """Raise KafkaError unless the group may become a consumer group."""
    if config.group_consumer_migration_policy.lower() not in UPGRADES:
        raise _cannot_upgrade(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER or group.protocol is None:
        raise _cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.group_consumer_max_size:
        raise _cannot_upgrade(group, "the group size exceeds the consumer group maximum size")


def to_consumer(group: ClassicGroup, image: ClusterImage, hashes: TopicHashes) -> list[Record]:
    """The records of the consumer group that a classic one becomes. Raise KafkaError."""
    try:
        members = [_upgraded(group, each, image) for each in group.members.values()]
    except ProtocolError as error:
        message = "the embedded consumer protocol is malformed"
        raise _cannot_upgrade(group, message) from error
    group_id, epoch = group.group_id, group.generation
    topics: set[str] = set().union(*(member.subscribed_topic_names for member in members))
    targets = {
        member.member_id: {t: frozenset(epochs) for t, epochs in member.assigned.items()}
        for member in members
    }
    return [
        *group.tombstones(),
        *(records.member_metadata(group_id, member) for member in members),
        records.group_epoch(group_id, epoch, hashes.of_all(topics, image)),
        *(records.target(group_id, member_id, target) for member_id, target in targets.items()),
        records.target_epoch(group_id, epoch, NEVER),
        *(records.place(group_id, member) for member in members),
    ]


def _upgraded(group: ClassicGroup, member: ClassicMember, image: ClusterImage) -> Member:
    """Raise ProtocolError, or KafkaError if its assignor says things that would be lost."""
    assert group.protocol is not None
    assigned = decode_assignment(member.assignment, image)
    if assigned is None:
        raise _cannot_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade",
        )
    if group.protocol not in member.protocols:
        # It has joined for the next generation, which will choose another. Kafka says no more.
        message = f"Member {member.member_id} does not support protocol {group.protocol}."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    subscription = decode_subscription(member.protocols[group.protocol])
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.host,
        subscribed_topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols.items()),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned={t: dict.fromkeys(sorted(p), group.generation) for t, p in assigned.items()},
    )


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]
) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=n, metadata=bytes(m)) for n, m in protocols],
    )


def may_be_classic_without(
    group: ConsumerGroup, gone: Collection[Member], config: BrokerConfig, *, joining: int = 0
) -> bool:
    """Whether those who stay are all classic, and may have a group of their own with so many who
    join it."""
    staying = len(group.members) - len(gone)
    classic = group.classic_members_count - sum(member.classic is not None for member in gone)
    return (
        0 < staying + joining <= config.group_max_size
        and classic == staying
        and config.group_consumer_migration_policy.lower() in DOWNGRADES
    )


def to_classic(
    group: ConsumerGroup,
    gone: Collection[Member],
    surroundings: Surroundings,
    now: float,
    joining: Member | None = None,
    *,
    is_rebalanced: bool = True,
) -> list[Record]:
    """The records of the classic group that a consumer group becomes without some members.

    `joining` is a static member that takes the place of one of them. Sessions begin now. What
    members of the consumer group had to do in time they still have to, if the log refuses.
    """
    staying = [m for m in group.members.values() if m not in gone]
    next_generation = Generation(surroundings.now_ms())
    next_generation.number, next_generation.protocol_type = group.epoch, CONSUMER
    targets = {m.member_id: group.targets.get(m.member_id, {}) for m in staying}
    if joining is not None:
        staying.append(joining)
        targets[joining.member_id] = {t: frozenset(e) for t, e in joining.assigned.items()}
        for member in gone:
            targets[joining.member_id] = group.targets.get(member.member_id, {})
    for member in staying:
        next_generation.add(_downgraded(group.group_id, member))
    protocol = next_generation.protocol = next_generation.choose_protocol()
    assignments: dict[str, bytes] = {}
    for member_id, each in next_generation.members.items():
        version = version_to_answer(each.protocols[protocol])
        target = targets[member_id]
        assignments[member_id] = encode_assignment(target, version, surroundings.image)
        timeout = each.session_timeout_ms / 1000
        surroundings.timers.set(each.session, now + timeout)
    value = next_generation.to_store(assignments)
    classic = ClassicGroup(group.group_id, surroundings.timers)
    classic.begin(value, next_generation.members)
    if is_rebalanced:
        classic.move_to(State.PREPARING, surroundings.now_ms())
        timer = Timer(group.group_id, JOIN)
        surroundings.timers.set(timer, now + classic.rebalance_timeout)
    surroundings.staged = classic
    return [*group.tombstones(), classic.record(value)]


def _downgraded(group_id: str, member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols={each.name: each.metadata for each in member.classic.supported_protocols},
        session=session_of(group_id, member.member_id),
    )


def _cannot_upgrade(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )
