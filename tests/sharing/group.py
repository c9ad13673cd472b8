"""A share partition and those who use it, with everything persisted at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import Acknowledgement, Acquired, Change, Limits, Span
from pyk.sharing.share_partition import SharePartition

LIMITS = Limits(deliveries=5, in_flight=2000, lock_duration=30.0)
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


class Group:
    def __init__(
        self,
        start_offset: int = 0,
        batches: Iterable[StateBatch] = (),
        *,
        limits: Limits = LIMITS,
    ) -> None:
        self.share = SharePartition(0, start_offset, batches)
        self.limits = limits
        self.now = 0.0

    def fetch(self, member: str, *batches: tuple[int, int], **options: Any) -> list[Acquired]:
        """What the member gets of record batches."""
        acquired, change = self.begin_to_fetch(member, *batches, **options)
        self.share.settle(change, is_persisted=True)
        return acquired

    def begin_to_fetch(
        self,
        member: str,
        *batches: tuple[int, int],
        max_records: int = 500,
        batch_size: int = 500,
        is_strict: bool = False,
        aborted: Sequence[Span] = (),
        onto: Change | None = None,
    ) -> tuple[list[Acquired], Change]:
        return self.share.acquire(
            member,
            [Span(*each) for each in batches],
            fetch_offset=self.share.next_fetch_offset(),
            max_records=max_records,
            batch_size=batch_size,
            is_strict=is_strict,
            aborted=aborted,
            limits=self.limits,
            now=self.now,
            onto=onto,
        )

    def say(self, member: str, first: int, last: int, *types: int) -> Change:
        change = self.begin_to_say(member, first, last, *types)
        self.share.settle(change, is_persisted=True)
        return change

    def begin_to_say(self, member: str, first: int, last: int, *types: int) -> Change:
        said = [Acknowledgement(first, last, types)]
        return self.share.acknowledge(member, said, self.limits, self.now)

    def expire(self) -> Change:
        change = self.share.expire(self.limits, self.now)
        self.share.settle(change, is_persisted=True)
        return change

    def leave(self, member: str) -> Change:
        change = self.share.release(member, self.limits)
        self.share.settle(change, is_persisted=True)
        return change
