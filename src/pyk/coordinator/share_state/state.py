"""The state of one share partition, as records say it and as its leader is told it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.coordinator.machine import Record
from pyk.coordinator.share_state.batches import StateBatch, StateBatches
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.wire.payloads import share_state_records as stored

NOT_GIVEN: Final = -1
"""An epoch that is not checked, an offset or a count that is not known."""


class ShareState(NamedTuple):
    """What the leader of a share partition begins with."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class Summary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


UNINITIALISED: Final = Summary(0, 0, NOT_GIVEN, NOT_GIVEN)


class Progress(NamedTuple):
    """What a leader has kept, and by which epochs it believes that it may."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    """-1 leaves it where it is."""
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()


class SharePartition(Struct, kw_only=True):
    """It changes when a record is applied."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: StateBatches
    created_ms: int
    written_ms: int
    """Later than `created_ms` if nothing had changed when the last snapshot was written."""
    state_epoch_seen: int
    leader_epoch_seen: int
    """The highest of both: who comes with less is fenced. A partition that is initialised again
    begins with less than it has seen."""
    updates: int = 0
    """Since the last snapshot that was due to their number."""
    needed_from: int = 0
    """Before this offset of the log is nothing that this partition needs."""

    @property
    def is_cold(self) -> bool:
        return self.created_ms != self.written_ms

    @property
    def state(self) -> ShareState:
        return ShareState(self.state_epoch, self.start_offset, tuple(self.batches))

    @property
    def summary(self) -> Summary:
        return Summary(
            self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count
        )

    def take_update(self, update: stored.ShareUpdateValue) -> None:
        self.delivery_complete_count = update.delivery_complete_count
        if update.start_offset != NOT_GIVEN:
            self.start_offset = update.start_offset
        if update.leader_epoch != NOT_GIVEN:
            self.leader_epoch = update.leader_epoch
            self.leader_epoch_seen = max(self.leader_epoch_seen, update.leader_epoch)
        self.batches.add(_read(update.state_batches))
        self.batches.forget_before(self.start_offset)
        self.updates += 1

    # Records

    def updated(self, key: SharePartitionKey, progress: Progress, leader_epoch: int) -> Record:
        """What has changed."""
        batches = StateBatches(progress.batches, progress.start_offset)
        value = stored.ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=progress.start_offset,
            delivery_complete_count=progress.delivery_complete_count,
            state_batches=_written(batches),
        )
        return Record(key.of_updates, value)

    def advanced(
        self, key: SharePartitionKey, progress: Progress, leader_epoch: int, now_ms: int
    ) -> Record:
        """All of it, with what has changed."""
        start_offset = progress.start_offset
        if start_offset == NOT_GIVEN:
            start_offset = self.start_offset
        batches = self.batches.copy()
        batches.add(progress.batches)
        batches.forget_before(start_offset)
        value = stored.ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=max(leader_epoch, self.leader_epoch_seen),
            start_offset=start_offset,
            delivery_complete_count=progress.delivery_complete_count,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=_written(batches),
        )
        return Record(key.of_snapshots, value)

    def repeated(self, key: SharePartitionKey, now_ms: int) -> Record:
        """All of it, though nothing has changed, so that the log needs less of its past."""
        value = stored.ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch_seen,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=now_ms,
            state_batches=_written(self.batches),
        )
        return Record(key.of_snapshots, value)


def initialised(
    key: SharePartitionKey, snapshot_epoch: int, state_epoch: int, start_offset: int, now_ms: int
) -> Record:
    """The partition begins, or begins anew: nobody has read it and nothing was delivered."""
    value = stored.ShareSnapshotValue(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start_offset,
        delivery_complete_count=NOT_GIVEN if start_offset == NOT_GIVEN else 0,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=[],
    )
    return Record(key.of_snapshots, value)


def from_snapshot(
    snapshot: stored.ShareSnapshotValue, before: SharePartition | None, offset: int
) -> SharePartition:
    """What a snapshot says. Who is fenced stays fenced, and if the snapshot knows nothing of a
    leader that fences others, what came before it is needed still."""
    taken = SharePartition(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        batches=StateBatches(_read(snapshot.state_batches)),
        created_ms=snapshot.create_timestamp,
        written_ms=snapshot.write_timestamp,
        state_epoch_seen=snapshot.state_epoch,
        leader_epoch_seen=snapshot.leader_epoch,
        needed_from=offset,
    )
    if before is None:
        return taken
    taken.updates = before.updates
    taken.state_epoch_seen = max(taken.state_epoch_seen, before.state_epoch_seen)
    if before.leader_epoch_seen > taken.leader_epoch_seen:
        taken.leader_epoch_seen = before.leader_epoch_seen
        taken.needed_from = before.needed_from
    return taken


def from_update(update: stored.ShareUpdateValue, offset: int) -> SharePartition:
    """What an update says by itself: the snapshot before it is gone from the log, and another one
    or the partition's end is to come."""
    return SharePartition(
        snapshot_epoch=update.snapshot_epoch,
        state_epoch=0,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=StateBatches(_read(update.state_batches)),
        created_ms=0,
        written_ms=0,
        state_epoch_seen=0,
        leader_epoch_seen=update.leader_epoch,
        updates=1,
        needed_from=offset,
    )


def _read(batches: Iterable[stored.StateBatch]) -> list[StateBatch]:
    return [
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
        for b in batches
    ]


def _written(batches: StateBatches) -> list[stored.StateBatch]:
    return [
        stored.StateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
        for first, last, state, count in batches
    ]
