"""The groups of one shard, as a machine: each call goes to the kind of group that it is about.

ClassicGroups     members who share partitions out among themselves
ConsumerGroups    members who are told by the broker (KIP-848)
ShareGroups       members who read the same partitions together (KIP-932)
Offsets           what the first two kinds have committed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyk.coordinator import offsets
from pyk.coordinator.assigned import RETRY_AFTER
from pyk.coordinator.classic.answers import not_joined
from pyk.coordinator.classic.group import ClassicGroup
from pyk.coordinator.classic.groups import ClassicGroups
from pyk.coordinator.committed import Offsets
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.groups import ConsumerGroups
from pyk.coordinator.group import Caller, Group, Surroundings, Timer
from pyk.coordinator.machine import (
    Decision,
    InTransaction,
    Record,
    Reply,
    Ticket,
    TransactionEnd,
)
from pyk.coordinator.offsets import Commit
from pyk.coordinator.share.group import ShareGroup
from pyk.coordinator.share.groups import WAITING, ShareGroups
from pyk.coordinator.share.offsets import ShareOffsets
from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import ErrorCode, KafkaError
from pyk.log.guards import Guard
from pyk.metadata.image import ClusterImage
from pyk.turns import Work
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.delete_groups import DeletableGroupResult
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest
from pyk.wire.messages.leave_group import LeaveGroupRequest
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from pyk.wire.messages.offset_commit import OffsetCommitRequest
from pyk.wire.messages.offset_delete import OffsetDeleteRequest
from pyk.wire.messages.offset_fetch import OffsetFetchRequestGroup
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyk.wire.messages.sync_group import SyncGroupRequest
from pyk.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from pyk.wire.payloads.classic_group_records import GroupMetadataKey
from pyk.wire.payloads.offset_records import OffsetCommitKey

CLEANING: Final = Timer("", "expire offsets")
"""Belongs to no group: when to look for what is too old."""
ABANDONED: Final = Timer("", "delete offsets of topics that are gone")
DELETED_AT_ONCE: Final = 1000
"""Tombstones in one batch."""
DELETED_BYTES_AT_ONCE: Final = 100_000
"""Of names in them: a group's may have 32 KiB."""


class Groups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._groups = surroundings.groups
        self.offsets = Offsets()
        self.classic = ClassicGroups(surroundings)
        self.consumer = ConsumerGroups(surroundings)
        self.share = ShareGroups(surroundings)
        self.share_offsets = ShareOffsets(surroundings)
        self._to_clean: list[str] = []

    @property
    def rebalances(self) -> int:
        return self._surroundings.rebalances

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    # The machine

    def apply(self, record: Record) -> None:
        key = record.key
        match key:
            case OffsetCommitKey():
                if record.value is not None and key.group not in self._groups:
                    self.classic.simple(key.group)
                if record.producer_id is None:
                    self.offsets.apply(key, record.value)
                else:
                    self.offsets.apply_pending(key, record.value, record.producer_id)
            case TransactionEnd(producer_id, is_commit):
                self.offsets.end_transaction(producer_id, is_commit=is_commit)
            case GroupMetadataKey():
                self.classic.apply(record)
            case _:
                if not self.share.apply(record):
                    self.consumer.apply(record)

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        self._surroundings.image = image
        yield from self.offsets.check_topics(image)

    def on_loaded(self, now: float) -> None:
        self.classic.on_loaded(now)
        self.consumer.on_loaded(now)
        self.share.on_loaded(now)
        self._clean_later(now)
        self._delete_abandoned_later(now)

    def deadline(self) -> float | None:
        return self._surroundings.timers.deadline()

    def expire(self, now: float) -> Decision:
        timer = self._surroundings.timers.take_due(now)
        if timer is None:
            return Decision()
        if timer == CLEANING:
            return self._clean(now)
        if timer == ABANDONED:
            return self._delete_abandoned(now)
        if timer.kind == WAITING:
            return self.share.expire(timer, now)
        match self._groups.get(timer.group_id):
            case ClassicGroup():
                return self.classic.expire(timer, now)
            case ConsumerGroup():
                return self.consumer.expire(timer, now)
            case ShareGroup():
                return self.share.expire(timer, now)
        return Decision()

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        """Topics have come, changed or gone."""
        self._surroundings.image = image
        if not changes.names:
            return
        self.consumer.on_image(image, changes)
        self.share.on_image(changes, now)
        if changes.deleted:
            self.offsets.abandon(set(changes.deleted.values()), image)
            self._delete_abandoned_later(now)

    # Members of classic groups

    def join(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                return self.consumer.join(request, caller, ticket, now)
            return self._replace(group, self.classic.join(request, caller, ticket, now))
        if isinstance(group, ShareGroup):
            refusal = not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return Decision(replies=[Reply(ticket, refusal)])
        return self.classic.join(request, caller, ticket, now)

    def _replace(self, empty: ConsumerGroup, decision: Decision) -> Decision:
        """A classic group has come in the place of an empty one, unless who wanted to make it was
        refused."""
        if not decision.records:
            return decision
        return decision._replace(records=[*empty.tombstones(), *decision.records])

    def sync(
        self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        if isinstance(self._groups.get(request.group_id), ConsumerGroup):
            return self.consumer.sync(request, caller, ticket, now)
        return self.classic.sync(request, caller, ticket, now)

    def heartbeat(
        self, request: HeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        if isinstance(self._groups.get(request.group_id), ConsumerGroup):
            return self.consumer.classic_heartbeat(request, caller, ticket, now)
        return self.classic.heartbeat(request, caller, ticket, now)

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        if isinstance(self._groups.get(request.group_id), ConsumerGroup):
            return self.consumer.leave(request, caller, ticket, now)
        return self.classic.leave(request, caller, ticket, now)

    # Members of consumer groups

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        return self.consumer.heartbeat(request, caller, ticket, now)

    # Members of share groups

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        return self.share.heartbeat(request, caller, ticket, now)

    # Offsets

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        ticket: Ticket,
        now: float,
        prepared: Commit | None = None,
    ) -> Decision:
        """The partitions are known to be there. The part that takes long may be `prepared`."""
        group = self._groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is not None:
            check = group.check_commit(
                request.member_id,
                request.group_instance_id,
                generation,
                version=caller.version,
                is_transactional=False,
            )
            if check is not None:
                for topic in request.topics:
                    for partition in topic.partitions:
                        check(topic.name, topic.topic_id, partition.partition_index)
            group.note_commit(request.member_id, now)
        elif generation >= 0:
            if tells_of_missing_groups(caller):
                raise missing(request.group_id)
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        commit = self._commit_of(request) if prepared is None else prepared
        return Decision(commit.records, [Reply(ticket, commit.response)], payload=commit.payload)

    def prepare_commit(self, request: OffsetCommitRequest) -> Work[Commit]:
        """The records and the answer of a commit, for when it is allowed."""
        return offsets.in_pieces(request, self._commit_of)

    def _commit_of(self, request: OffsetCommitRequest) -> Commit:
        return offsets.commit(
            request,
            metadata_bytes_max=self._surroundings.config().offset_metadata_max_bytes,
            now_ms=self._surroundings.now_ms(),
        )

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        caller: Caller,
        guard: Guard | None,
        ticket: Ticket,
        now: float,
        prepared: Commit | None = None,
    ) -> Decision:
        """The partitions are known to be there, and what they are in has been verified."""
        group = self._groups.get(request.group_id)
        if group is not None:
            try:
                group.check_commit(
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    version=caller.version,
                    is_transactional=True,
                )
            except KafkaError as refusal:
                if refusal.code is not ErrorCode.STALE_MEMBER_EPOCH:
                    raise
                # Transactional producers do not know that there are epochs.
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from refusal
        elif request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        image, commit = self._surroundings.image, prepared
        if commit is None or not _has_same_topics(request, commit.image, image):
            commit = self._commit_in_transaction_of(request, image)
        return Decision(
            commit.records,
            [Reply(ticket, commit.response)],
            transaction=InTransaction(request.producer_id, request.producer_epoch, guard),
            payload=commit.payload,
        )

    def prepare_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> Work[Commit]:
        """The same for one in a transaction. It is of no use any more when the topics change."""
        image = self._surroundings.image
        commit = yield from offsets.in_pieces(
            request, lambda piece: self._commit_in_transaction_of(piece, image)
        )
        return commit._replace(image=image)

    def _commit_in_transaction_of(
        self, request: TxnOffsetCommitRequest, image: ClusterImage
    ) -> Commit:
        return offsets.commit_in_transaction(
            request,
            image,
            metadata_bytes_max=self._surroundings.config().offset_metadata_max_bytes,
            now_ms=self._surroundings.now_ms(),
        )

    def fetch(
        self,
        request: OffsetFetchRequestGroup,
        ticket: Ticket,
        now: float,
        *,
        require_stable: bool = False,
    ) -> Decision:
        """Answered by what was `Found`, of which the answer to the client is made in turns."""
        group = self._groups.get(request.group_id)
        if group is not None:
            group.check_fetch(request.member_id, request.member_epoch)
        found = offsets.found(self.offsets, request, require_stable=require_stable)
        return Decision(replies=[Reply(ticket, found)])

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket, now: float) -> Decision:
        group = self._found(request.group_id)
        group.check_offset_delete()
        committed = self.offsets.of(request.group_id)
        pending = self.offsets.pending(request.group_id)
        records, response = offsets.delete(request, group, committed, pending)
        return Decision(records, [Reply(ticket, response)])

    # Groups as such

    def listed(self, request: ListGroupsRequest) -> Work[list[ListedGroup]]:
        states = {state.lower() for state in request.states_filter}
        types = {name.lower() for name in request.types_filter}
        found = []
        for group in list(self._groups.values()):
            state, kind = group.state, group.type.value
            if (not states or state.lower() in states) and (not types or kind.lower() in types):
                found.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type,
                        group_state=state,
                        group_type=kind,
                    )
                )
            yield
        return found

    def describe(self, group_id: str, operations: int, ticket: Ticket, now: float) -> Decision:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise missing(group_id) if group is None else other_type(group_id, "classic")
        return Decision(replies=[Reply(ticket, self.classic.describe(group, operations))])

    def describe_consumer(
        self, group_id: str, operations: int, ticket: Ticket, now: float
    ) -> Decision:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise missing(group_id) if group is None else other_type(group_id, "consumer")
        return Decision(replies=[Reply(ticket, self.consumer.describe(group, operations))])

    def describe_share(
        self, group_id: str, operations: int, ticket: Ticket, now: float
    ) -> Decision:
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            raise missing(group_id) if group is None else other_type(group_id, "share")
        return Decision(replies=[Reply(ticket, self.share.describe(group, operations))])

    def delete(self, group_id: str, ticket: Ticket, now: float) -> Decision:
        group = self._found(group_id)
        group.check_delete()
        response = DeletableGroupResult(group_id=group_id)
        return Decision(self._deletion(group), [Reply(ticket, response)])

    def _found(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise missing(group_id)
        return group

    def _deletion(self, group: Group) -> list[Record]:
        return [*offsets.tombstones_of(group.group_id, self.offsets), *group.tombstones()]

    # What is of no topic any more

    def _delete_abandoned_later(self, now: float) -> None:
        if self.offsets.has_abandoned:
            self._surroundings.timers.set(ABANDONED, now)

    def _delete_abandoned(self, now: float) -> Decision:
        """Some of it, and the others at once after that. What waits for the end of a transaction
        is looked at again."""
        records = self.offsets.deletions(DELETED_AT_ONCE)
        if self.offsets.has_abandoned:
            is_all = len(records) < DELETED_AT_ONCE
            self._surroundings.timers.set(ABANDONED, now + RETRY_AFTER if is_all else now)

        def try_later(_: KafkaError) -> Decision:
            self._surroundings.timers.set(ABANDONED, now + RETRY_AFTER)
            return Decision()

        return Decision(records, otherwise=try_later)

    # What is too old

    def _clean_later(self, now: float) -> None:
        interval_ms = self._surroundings.config().offsets_retention_check_interval_ms
        self._surroundings.timers.set(CLEANING, now + interval_ms / 1000)

    def _clean(self, now: float) -> Decision:
        """Delete what is too old of the next group that has such, and of the others later."""
        if not self._to_clean:
            self._to_clean = list(self._groups)
        while self._to_clean:
            group = self._groups.get(self._to_clean.pop())
            # A share group has no offsets, and stays until it is deleted.
            if group is None or isinstance(group, ShareGroup):
                continue
            records, is_all = self._outdated(group)
            if not is_all:
                self._to_clean.append(group.group_id)
            if records:
                self._surroundings.timers.set(CLEANING, now)
                return Decision(records, otherwise=self._clean_again(group, now))
        self._clean_later(now)
        return Decision()

    def _clean_again(self, group: Group, now: float) -> Callable[[KafkaError], Decision]:
        def try_later(_: KafkaError) -> Decision:
            """Behind the others: it may be this group's records that the log does not take."""
            if self._to_clean and self._to_clean[-1] == group.group_id:
                self._to_clean.pop()
            self._to_clean.insert(0, group.group_id)
            self._surroundings.timers.set(CLEANING, now + RETRY_AFTER)
            return Decision()

        return try_later

    def _outdated(self, group: Group) -> tuple[list[Record], bool]:
        """What deletes what is too old, as much of it as fits a batch, and whether that is all."""
        committed = self.offsets.of(group.group_id)
        pending = self.offsets.pending(group.group_id)
        old: list[Record] = []
        size = 0
        for record in offsets.expired(
            group,
            committed,
            now_ms=self._surroundings.now_ms(),
            retention_minutes=self._surroundings.config().offsets_retention_minutes,
            pending=pending,
        ):
            old.append(record)
            size += len(group.group_id) + len(record.key.topic)
            if len(old) == DELETED_AT_ONCE or size > DELETED_BYTES_AT_ONCE:
                return old, False
        is_left = pending or len(old) < sum(map(len, committed.values()))
        if not is_left and _is_deletable(group):
            old += group.tombstones()
        return old, True


def _has_same_topics(
    request: TxnOffsetCommitRequest, before: ClusterImage | None, now: ClusterImage
) -> bool:
    names = (topic.name for topic in request.topics)
    return before is not None and now.has_same(names, before)


def tells_of_missing_groups(caller: Caller) -> bool:
    """Whether OffsetCommit may say that there is no such group: since v9 (KIP-848)."""
    return caller.version >= 9


def missing(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def other_type(group_id: str, wanted: str) -> KafkaError:
    message = f"Group {group_id} is not a {wanted} group."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _is_deletable(group: Group) -> bool:
    try:
        group.check_delete()
    except KafkaError:
        return False
    return True
