"""What of a stored log is committed: how far every transaction is decided, and which were aborted.

A broker knows by having seen every batch. Its files tell the same: snapshots of its producers, the
index of aborted transactions beside each segment, and for the end of the log, of which these are
not written yet, the headers of its batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from pyk.log.producers import Producers
from pyk.log.replay import note
from pyk.log.stored_log import LogDamaged, StoredLog
from pyk.log.stored_segment import DamagedBatch, StoredSegment, TornTail
from pyk.log.transactions import AbortedTransaction
from pyk.wire.compression import CorruptBatch


class Stability(NamedTuple):
    last_stable_offset: int
    """Before it every transaction is decided."""
    aborted: list[AbortedTransaction]
    """Those that have records from the given start on and before it."""


def find_stability(
    log: StoredLog, start_offset: int, end_offset: int, *, skips_damage: bool = False
) -> Stability:
    """What is decided of the records between the two, the latter being the end of the log.

    Raise LogDamaged, and FileNotFoundError if segments went meanwhile. Whoever skips damage does
    not hear of transactions that began or ended there.
    """
    # Of segments that are not flushed the index of aborted transactions may not be written.
    producers, replayed_from = log.producers_at(min(log.known.recovery_point, end_offset))
    aborted = [
        transaction
        for base in log.bases
        if base < replayed_from and (log.end_of(base) or end_offset) > start_offset
        for transaction in log.aborted(base)
        if transaction.last_offset < replayed_from
    ]
    aborted += _replayed(log, producers, range(replayed_from, end_offset), skips_damage)
    undecided = producers.first_undecided_offset
    stable = end_offset if undecided is None else min(undecided, end_offset)
    return Stability(
        stable,
        [
            each
            for each in aborted
            if each.last_offset >= start_offset and each.first_offset < stable
        ],
    )


def _replayed(
    log: StoredLog, producers: Producers, offsets: range, skips_damage: bool
) -> Iterator[AbortedTransaction]:
    """Let `producers` see the batches between two offsets, and give what was aborted."""
    for base in log.bases:
        if base >= offsets.stop or (log.end_of(base) or offsets.stop) <= offsets.start:
            continue
        segment = log.open(base)
        position: int | None = segment.seek(offsets.start)
        while position is not None:
            try:
                yield from _noted(producers, segment, position, offsets)
                break
            except DamagedBatch as wrong:
                if not skips_damage:
                    raise LogDamaged(
                        f"{wrong.path} is damaged at {wrong.position}: {wrong}"
                    ) from None
                position = segment.indexed_after(wrong.position)


def _noted(
    producers: Producers, segment: StoredSegment, position: int, offsets: range
) -> Iterator[AbortedTransaction]:
    """Raise DamagedBatch."""
    with suppress(TornTail):
        for placed in segment.batches(position):
            header = placed.header
            if header.last_offset >= offsets.stop:
                return
            if header.producer_id < 0 or header.last_offset < offsets.start:
                continue
            try:
                aborted = note(producers, header, lambda placed=placed: segment.load(placed))  # type: ignore[misc]
            except CorruptBatch as wrong:
                raise DamagedBatch(segment.path, placed.position, str(wrong)) from None
            if aborted is not None:
                yield aborted
