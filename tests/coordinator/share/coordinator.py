"""A coordinator of share groups without a loop, a disk or a network: a machine, its log, and the
states of partitions, which are begun at once, later, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyk.coordinator.group import Caller
from pyk.coordinator.machine import Decision, Ticket
from pyk.coordinator.share.group import ShareGroup
from pyk.coordinator.share.initialization import Initialization
from pyk.coordinator.share.member import Member
from pyk.coordinator.share_lifecycle import places
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid
from pyk.wire.messages.share_group_describe import DescribedGroup
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.consumer import coordinator as consumer
from tests.coordinator.consumer.coordinator import GROUP, INTERVAL, SESSION, Answer, Held

__all__ = ["GROUP", "INTERVAL", "SESSION", "Answer", "Coordinator", "Held"]


class Coordinator(consumer.Coordinator):
    def __init__(self, topics: Mapping[str, int], **config: Any) -> None:
        self.states: dict[tuple[Uuid, int], int] = {}
        """The epochs in which partitions began."""
        self.states_refuse = False
        self.states_wait = False
        self._under_way: list[Initialization] = []
        super().__init__(topics, **config)

    def restart(self) -> None:
        self._under_way.clear()
        super().restart()

    # The states of partitions

    def perform(self, decision: Decision) -> None:
        super().perform(decision)
        self._under_way += self.groups.share.take_wanted()
        if not self.states_wait:
            self.states_answer()

    def states_answer(self) -> None:
        """Say what came of all that was to begin."""
        while self._under_way:
            self._end(self._under_way.pop(0))

    def _end(self, wanted: Initialization) -> None:
        share, group_id, partitions = self.groups.share, wanted.group_id, wanted.partitions
        share.end(wanted)
        if self.states_refuse:
            self.perform(share.ended(group_id, {}, partitions))
        else:
            self.states.update(dict.fromkeys(places(partitions), wanted.state_epoch))
            self.perform(share.ended(group_id, partitions, {}))
        while share.is_waited_for(group_id):
            self.perform(share.settle(group_id, self.now))

    # What members say

    def says(
        self,
        member_id: str,
        epoch: int,
        topics: Iterable[str] | None = None,
        *,
        client_id: str = "app",
        group_id: str = GROUP,
        **fields: Any,
    ) -> Ticket:
        """A heartbeat that may have to wait for its answer. Raise KafkaError."""
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            **fields,
        )
        caller = Caller(1, client_id, "/10.0.0.1")
        return self.ask(
            lambda groups, ticket, now: groups.share_heartbeat(request, caller, ticket, now)
        )

    def hears(self, ticket: Ticket) -> Answer | None:
        """What it is answered, if it is."""
        found = self.answers.pop(ticket, None)
        if found is None:
            return None
        if isinstance(found, KafkaError):
            return Answer(None, 0, None, found.code, found.message)
        told = None if found.assignment is None else found.assignment.topic_partitions
        return Answer(
            found.member_id,
            found.member_epoch,
            None if told is None else {self.name(t.topic_id): set(t.partitions) for t in told},
            interval_ms=found.heartbeat_interval_ms,
        )

    def heartbeat(self, member_id: str, epoch: int, *topics: str, **more: Any) -> Answer:
        """One that is answered at once."""
        try:
            ticket = self.says(member_id, epoch, topics or None, **more)
        except KafkaError as error:
            return Answer(None, 0, None, error.code, error.message)
        answer = self.hears(ticket)
        assert answer is not None, "it has to wait"
        return answer

    def comes(self, member_id: str, *topics: str, **more: Any) -> Answer:
        return self.heartbeat(member_id, 0, *topics, **more)

    def goes(self, member_id: str) -> Answer:
        return self.heartbeat(member_id, -1)

    # What there is

    @property
    def shared(self) -> ShareGroup:
        group = self.surroundings.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def reader(self, member_id: str) -> Member:
        return self.shared.members[member_id]

    def shown(self) -> DescribedGroup:
        ticket = self.ask(lambda groups, ticket, now: groups.describe_share(GROUP, -1, ticket, now))
        group = self.answers.pop(ticket)
        assert isinstance(group, DescribedGroup)
        return group

    def refused(self, member_id: str, epoch: int, *topics: str, **more: Any) -> ErrorCode:
        return self.heartbeat(member_id, epoch, *topics, **more).error
