"""The leader of a partition: what is committed.

A step machine. Events say what has happened, in the past tense; effects what is to be done, in
order. It never waits, and knows no log: only where logs end. The high watermark is the log's, which
survives every leader.

    Leader.step(event, high_watermark) -> list[Effect]

What all replicas in sync have is committed. With one replica that is everything at once.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field


class Appended(Struct, frozen=True):
    """The leader's own log has grown."""

    end_offset: int


class Truncated(Struct, frozen=True):
    """The leader's own log was cleared, or cut when it began to lead."""

    end_offset: int


class IsrChanged(Struct, frozen=True):
    """Other replicas count, in the same leader epoch."""

    in_sync: frozenset[int]


class CommitTo(Struct, frozen=True):
    """Everything before `offset` is committed: whoever waits for that is to be told."""

    offset: int


Event: TypeAlias = Appended | Truncated | IsrChanged
Effect: TypeAlias = CommitTo


class Leader(Struct):
    node_id: int
    leader_epoch: int
    log_end: int
    in_sync: frozenset[int]
    """The replicas that count, the leader among them."""
    follower_ends: dict[int, int] = field(default_factory=dict)
    """Where the logs of the others are known to end."""

    def step(self, event: Event, high_watermark: int) -> list[Effect]:
        """`high_watermark` is the log's after the event."""
        match event:
            case Appended(end_offset) | Truncated(end_offset):
                self.log_end = end_offset
            case IsrChanged(in_sync):
                self.in_sync = in_sync
        return self._commit(high_watermark)

    def _commit(self, high_watermark: int) -> list[Effect]:
        committed = self.log_end
        if len(self.in_sync) > 1:
            # One of which nothing is known lets the high watermark where it is.
            others = self.in_sync - {self.node_id}
            ends = [self.follower_ends.get(node_id, high_watermark) for node_id in others]
            committed = min([committed, *ends])
        return [CommitTo(committed)] if committed > high_watermark else []
