"""All classic groups of a shard."""

from __future__ import annotations

from pyk.coordinator.classic.group import ClassicGroup
from pyk.coordinator.group import Caller, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.wire.messages.describe_groups import DescribedGroup


class ClassicGroups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    def simple(self, group_id: str) -> ClassicGroup:
        group = ClassicGroup(group_id)
        self._surroundings.groups[group_id] = group
        return group

    def apply(self, record: Record) -> None:
        if record.value is None:
            self._surroundings.groups.pop(record.key.group, None)

    def on_loaded(self, now: float) -> None:
        pass

    def expire(self, timer: Timer, now: float) -> Decision:
        return Decision()

    def describe(self, group: ClassicGroup, authorized_operations: int) -> DescribedGroup:
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state,
            protocol_type="",
            protocol_data="",
            members=[],
            authorized_operations=authorized_operations,
        )

    def join(self, request: object, caller: Caller, ticket: Ticket, now: float) -> Decision:
        raise NotImplementedError

    sync = heartbeat = leave = join
