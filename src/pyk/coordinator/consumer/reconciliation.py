"""How a member gets from what it has to what it should have, without two ever having the same.

    STABLE --------------------> gives back what it should not have -> UNREVOKED_PARTITIONS
       ^                                                                      |
       +---- has all of its target <---- takes what is free <-----------------+
                                              |    ^
                                              v    | others give something back
                                       UNRELEASED_PARTITIONS

- A member gives back first, and takes what is new when it has said that it holds nothing of that
  any more. Until then it stays in its epoch.
- It gets a partition when nobody has it, neither assigned nor still to be revoked.
- In the epoch of the target it has no partition that is not of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from msgspec.structs import replace

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.consumer.member import Assigned, Member, MemberState, holds_any
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid
from pyk.wire.messages.consumer_group_heartbeat import TopicPartitions


class Goal(NamedTuple):
    """Where a member has to get to."""

    epoch: int
    """Of the target."""
    target: Partitions
    subscribed: Set[Uuid]
    """The topics that it subscribes to now, which the target may not know of yet."""
    is_owned: Callable[[Uuid, int], bool]
    """Whether a member has a partition."""


def reconcile(
    member: Member,
    goal: Goal,
    held: list[TopicPartitions] | None,
    *,
    has_resubscribed: bool,
) -> Member:
    """The member after its next step, or itself if it cannot take one.

    `held` is what it says that it holds, or None if it does not say. Raise KafkaError.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return _moved(member, goal, held)
            return _unsubscribed(member, goal, held) if has_resubscribed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if held is None or holds_any(held, member.pending_revocation):
                return _unsubscribed(member, goal, held) if has_resubscribed else member
            return _moved(member, goal, held)
        case MemberState.UNRELEASED_PARTITIONS:
            return _moved(member, goal, held)
        case MemberState.UNKNOWN:
            if held is None or held:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _moved(member, goal, held)


def _moved(member: Member, goal: Goal, held: list[TopicPartitions] | None) -> Member:
    kept: dict[Uuid, dict[int, int]] = {}
    revoked: dict[Uuid, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = _wanted(goal, topic_id)
        _put(kept, topic_id, {p: epoch for p, epoch in epochs.items() if p in wanted})
        _put(revoked, topic_id, {p: epoch for p, epoch in epochs.items() if p not in wanted})
    if revoked and (held is None or holds_any(held, revoked)):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    must_wait = _take_what_is_free(member, goal, kept)
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation={},
    )


def _take_what_is_free(member: Member, goal: Goal, kept: dict[Uuid, dict[int, int]]) -> bool:
    """Whether some of the target is not free yet. What the member itself has just given back is."""
    must_wait, epoch, is_owned = False, goal.epoch, goal.is_owned
    for topic_id in goal.target:
        own, missing = kept.get(topic_id), _wanted(goal, topic_id)
        if own:
            missing = missing - own.keys()
        if missing:
            returned = member.pending_revocation.get(topic_id, {})
            free = {p: epoch for p in sorted(missing) if p in returned or not is_owned(topic_id, p)}
            must_wait = must_wait or len(free) < len(missing)
            _put(kept, topic_id, {**own, **free} if own else free)
    return must_wait


def _unsubscribed(member: Member, goal: Goal, held: list[TopicPartitions] | None) -> Member:
    """It gives back what it does not subscribe to any more, before there is a target that says so.

    Nothing else changes: it is in its epoch still.
    """
    gone = {t: epochs for t, epochs in member.assigned.items() if t not in goal.subscribed}
    if not gone:
        return member
    kept = {t: epochs for t, epochs in member.assigned.items() if t in goal.subscribed}
    revoked = _merged(member.pending_revocation, gone)
    if held is None or holds_any(held, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    return replace(member, previous_epoch=member.epoch, assigned=kept)


def _wanted(goal: Goal, topic_id: Uuid) -> frozenset[int]:
    return goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()


def _merged(these: Assigned, those: Assigned) -> Assigned:
    return {t: {**these.get(t, {}), **those.get(t, {})} for t in [*these, *those]}


def _put(into: dict[Uuid, dict[int, int]], topic_id: Uuid, epochs: dict[int, int]) -> None:
    if epochs:
        into[topic_id] = epochs
