"""Members of one group on each side, who do the same and must hear the same.

Ids of members differ between sides, so in answers they have the names that the script knows them
by. What has to wait is sent by one call and received by another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from compat_tests.differential.comparison import Comparison
from compat_tests.differential.sides import Side, until
from compat_tests.differential.stored import stored
from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription
from pyk.wire.prefixed import encode_value
from tests.clients.raw import RawClient

JOIN, SYNC = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP
HEARTBEAT, LEAVE = ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP
COMMIT, DESCRIBE = ApiKey.OFFSET_COMMIT, ApiKey.DESCRIBE_GROUPS
NEWEST = {JOIN: 9, SYNC: 5, HEARTBEAT: 4, LEAVE: 5, COMMIT: 9, DESCRIBE: 6}
MADE_UP = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What ids look like that brokers give out."""


def subscribed(*topics: str) -> bytes:
    return encode_value(ConsumerProtocolSubscription(topics=list(topics)), 0)


RANGE = {"range": subscribed("any")}


class _Stage:
    """What a script knows of one side."""

    def __init__(self, side: Side, stack: ExitStack) -> None:
        self.side = side
        self._stack = stack
        self._clients: dict[str, RawClient] = {}
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def client(self, name: str) -> RawClient:
        if name not in self._clients:
            self._clients[name] = self._stack.enter_context(RawClient(self.side.address))
        return self._clients[name]

    def id_of(self, name: str) -> str:
        """The last id of who has this name, or the name itself."""
        return self._ids.get(name, name)

    def note(self, name: str, member_id: str) -> None:
        """An id that is not known yet is this member's new one."""
        if MADE_UP.fullmatch(member_id) and member_id not in self._names:
            count = sum(known.rstrip("'") == name for known in self._names.values())
            self._names[member_id] = name + "'" * count
            self._ids[self._names[member_id]] = self._ids[name] = member_id

    def named(self, value: Any) -> Any:
        """With names for ids, and members in the order of their names."""
        if isinstance(value, dict):
            return {key: self.named(each) for key, each in value.items()}
        if isinstance(value, list):
            items = [self.named(each) for each in value]
            return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
        if isinstance(value, str):
            return self._names.get(value) or MADE_UP.sub("somebody", value)
        return value


class Cast:
    def __init__(
        self, compare: Comparison, group_id: str, version: int, stages: Mapping[str, _Stage]
    ) -> None:
        self.group_id = group_id
        self._compare = compare
        self._version = version
        self._stages = stages

    @contextmanager
    @staticmethod
    def of(compare: Comparison, group_id: str, version: int) -> Iterator[Cast]:
        """They speak this version of each API, or the newest that it has."""
        with ExitStack() as stack:
            stages = {side.name: _Stage(side, stack) for side in compare.sides}
            yield Cast(compare, group_id, version, stages)

    # What members say

    def joins(self, name: str, case: str, **more: Any) -> None:
        """And is answered at once."""
        self.begins_to_join(name, **more)
        self.hears(name, JOIN, case)

    def begins_to_join(
        self,
        name: str,
        *,
        as_: str | None = None,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] = RANGE,
        session_timeout_ms: int = 60_000,
        rebalance_timeout_ms: int = 60_000,
        group_id: str | None = None,
    ) -> None:
        """With its last id, if it has one, or as another one."""

        def make(stage: _Stage) -> JoinGroupRequest:
            known = stage.id_of(name if as_ is None else as_)
            return JoinGroupRequest(
                group_id=self.group_id if group_id is None else group_id,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                member_id="" if as_ is None and known == name else known,
                group_instance_id=instance_id,
                protocol_type=protocol_type,
                protocols=[
                    JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols.items()
                ],
            )

        self._send(name, JOIN, make)

    def comes_in(self, name: str, case: str, **more: Any) -> None:
        """As clients do: the first time without an id, if that is needed, which is answered."""
        if self._version >= 4 and more.get("instance_id") is None:
            self.joins(name, f"{case}: first without an id", **more)
        self.begins_to_join(name, **more)

    def syncs(self, name: str, case: str, generation: int, **more: Any) -> None:
        self.begins_to_sync(name, generation, **more)
        self.hears(name, SYNC, case)

    def begins_to_sync(
        self,
        name: str,
        generation: int,
        *,
        as_: str | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        assignments: Mapping[str, bytes] = {},
        group_id: str | None = None,
    ) -> None:
        def make(stage: _Stage) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=self.group_id if group_id is None else group_id,
                generation_id=generation,
                member_id=stage.id_of(as_ or name),
                group_instance_id=instance_id,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=stage.id_of(m), assignment=a)
                    for m, a in assignments.items()
                ],
            )

        self._send(name, SYNC, make)

    def beats(
        self,
        name: str,
        case: str,
        generation: int,
        *,
        instance_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        def make(stage: _Stage) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self.group_id if group_id is None else group_id,
                generation_id=generation,
                member_id=stage.id_of(name),
                group_instance_id=instance_id,
            )

        self._ask("anybody", HEARTBEAT, make, f"{case}: {name} beats")

    def leave(
        self, case: str, *names: str | tuple[str, str | None], group_id: str | None = None
    ) -> None:
        """Members by their names, perhaps with instance ids. Before v3 only the first."""
        pairs = [(each, None) if isinstance(each, str) else each for each in names]

        def make(stage: _Stage) -> LeaveGroupRequest:
            members = [
                MemberIdentity(member_id=stage.id_of(name), group_instance_id=instance_id)
                for name, instance_id in pairs
            ]
            named = group_id if group_id is not None else self.group_id
            if self._version < 3:
                return LeaveGroupRequest(group_id=named, member_id=members[0].member_id)
            return LeaveGroupRequest(group_id=named, members=members)

        self._ask("anybody", LEAVE, make, case)

    def commits(
        self, name: str, case: str, generation: int, instance_id: str | None = None
    ) -> None:
        """An offset of a topic that is there."""

        def make(stage: _Stage) -> OffsetCommitRequest:
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=1, committed_metadata=""
            )
            return OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=generation,
                member_id=stage.id_of(name) if name else "",
                group_instance_id=instance_id,
                topics=[OffsetCommitRequestTopic(name="marker", partitions=[partition])],
            )

        self._ask("anybody", COMMIT, make, f"{case}: {name} commits", version=8)

    def describe(self, case: str) -> None:
        request = DescribeGroupsRequest(groups=[self.group_id])
        self._ask("anybody", DESCRIBE, lambda stage: request, f"{case}: described")

    # What they hear

    def hears(self, name: str, key: ApiKey, case: str) -> None:
        found = []
        for stage in self._stages.values():
            answer = stage.client(name).receive(key, self._of(key))
            if key is JOIN:
                stage.note(name, answer.member_id)
            found.append(stage.named(stage.side.plain(answer)))
        self._judge(key, f"{case}: {name} hears", found)

    def wait_for(self, state: str, members: int | None = None) -> None:
        """What was sent before has come to this on both sides."""

        def is_there(stage: _Stage) -> bool:
            group = _described(stage.side, self.group_id)
            return group.group_state == state and members in (None, len(group.members))

        for stage in self._stages.values():
            until(lambda stage=stage: is_there(stage))  # type: ignore[misc]

    def compare_records(self, case: str) -> None:
        """What each side has written about the group."""
        found = [
            stage.named([list(record[1:]) for record in stored(stage.side, self.group_id)])
            for stage in self._stages.values()
        ]
        self._judge(JOIN, f"{case}: records", found)

    def _of(self, key: ApiKey) -> int:
        return min(self._version, NEWEST[key])

    def _send(self, name: str, key: ApiKey, make: Callable[[_Stage], Any]) -> None:
        for stage in self._stages.values():
            stage.client(name).send(key, self._of(key), make(stage))

    def _ask(
        self,
        name: str,
        key: ApiKey,
        make: Callable[[_Stage], Any],
        case: str,
        version: int | None = None,
    ) -> None:
        version = self._of(key) if version is None else version
        found = []
        for stage in self._stages.values():
            answer = stage.client(name).ask(key, version, make(stage))
            found.append(stage.named(stage.side.plain(answer)))
        self._judge(key, case, found)

    def _judge(self, key: ApiKey, case: str, found: list[Any]) -> None:
        kafka, pyk = found
        self._compare.judge(f"{key.name} as of v{self._version} {case}", kafka, pyk)


def _described(side: Side, group_id: str) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group_id])
    group: DescribedGroup = side.ask(DESCRIBE, 5, request).groups[0]
    return group
