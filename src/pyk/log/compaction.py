"""Compaction of a log: of each key the latest record stays, at its offset, and older ones go.

    plan (cheap, beside appends) -> rewrite (in any thread or process) -> Segments.swap_in

- Only sealed segments take part, as wholes. They are read, and new ones written beside them.
- What was aborted goes, and so do records without a key.
- Tombstones, and markers of transactions that have no records left, first get a delete horizon
  and go once it has passed (KIP-534): who reads the log in the meantime learns of the deletion.
- Emptied batches stay where they tell how far a producer was, or where a segment ends.
- What is damaged is CorruptBatch, and all is as it was: rot must not get a new CRC. A batch that
  cannot be read though its CRC is right was accepted so, and is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from pyk.disk import Disk
from pyk.log.batch_survival import Batch, LastOfProducer, Survival, survey
from pyk.log.config import INT64_MAX, LogConfig
from pyk.log.indexed_batches import OFFSET_SPAN_MAX
from pyk.log.key_survival import KeySurvival
from pyk.log.segment import Segment, file_name
from pyk.log.segments import CLEANED, SUFFIXES, Segments
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import iterate_batches, peek_header
from pyk.wire.compression import CorruptBatch

MEMORY_BYTES: Final = 32 * 1024**2
"""What the keys may take. On top comes one bit for each record."""

OPENED_AT_ONCE: Final = 256
"""So many segments are opened to see how old they are before others have a turn."""

JOINED_AT_ONCE: Final = 64
"""So many segments become one. Their files are renamed in one step, and others wait for that."""

_READ_BYTES: Final = 1024**2
_INDEX_ENTRY_BYTES: Final = 12

Bases: TypeAlias = tuple[int, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be compacted. It can be pickled."""

    groups: tuple[Bases, ...]
    """The bases of the segments that take part, together those that become one."""
    end_offset: int
    """Where the next compaction finds the first dirty record."""
    now_ms: int
    config: LogConfig

    @property
    def start_offset(self) -> int:
        return self.groups[0][0]


class Rewritten(NamedTuple):
    """A segment that waits to be swapped in."""

    bases: Bases
    bytes_before: int
    bytes_after: int


class Result(NamedTuple):
    rewritten: list[Rewritten]
    """In order. What is not among them stays as it is."""
    end_offset: int


def plan(
    segments: Segments,
    *,
    cleaned_until: int,
    log_start_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> Plan | None:
    """What to compact now, if that is due: the next time, if that would take long to say.
    `cleaned_until` is where the last compaction ended."""
    first_dirty = cleaned_until
    if not log_start_offset <= cleaned_until <= segments.end_offset:
        first_dirty = log_start_offset
    end = _first_uncleanable(segments, first_dirty, last_stable_offset, now_ms)
    if end is None:
        return None
    bases = [base for base in segments.bases if base < end]
    dirty = [base for base in bases if segments.end_of(base) > first_dirty]
    dirty_bytes = sum(map(segments.size_of, dirty))
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(map(segments.size_of, bases))
    if ratio > segments.config.min_cleanable_dirty_ratio or _is_overdue(segments, dirty, now_ms):
        groups = tuple(_groups(segments, bases))
        return Plan(groups=groups, end_offset=end, now_ms=now_ms, config=segments.config)
    return None


def rewrite(
    disk: Disk,
    directory: Path,
    plan: Plan,
    aborted: Iterable[AbortedTransaction],
    producers: Mapping[int, LastOfProducer],
    *,
    memory_bytes: int = MEMORY_BYTES,
    checkpoint: Callable[[], None] = lambda: None,
) -> Result:
    """Write the compacted segments, durably, for `Segments.swap_in` to take.

    `aborted` are all the transactions with records in the range of the plan. Raise CorruptBatch,
    OSError, or what `checkpoint` raises, which is called now and then: nothing new is left then.
    """
    rewritten: list[Rewritten] = []
    try:
        rewritten.extend(
            rewrite_groups(
                disk,
                directory,
                plan,
                aborted,
                producers,
                memory_bytes=memory_bytes,
                checkpoint=checkpoint,
            )
        )
    except BaseException:
        for base, *_ in plan.groups:
            remove_draft(disk, directory, base)
        raise
    return Result(rewritten, plan.end_offset)


def rewrite_groups(
    disk: Disk,
    directory: Path,
    plan: Plan,
    aborted: Iterable[AbortedTransaction],
    producers: Mapping[int, LastOfProducer],
    *,
    memory_bytes: int = MEMORY_BYTES,
    checkpoint: Callable[[], None] = lambda: None,
) -> Iterator[Rewritten]:
    """As `rewrite`, one by one: each may be swapped in before the next is asked for, so that the
    disk need not hold all of the log twice."""
    sources = _Sources(disk, directory, checkpoint)
    aborted = list(aborted)
    keys = KeySurvival(disk, directory, memory_bytes)
    bytes_max = plan.config.inflated_bytes_max
    try:
        batches = sources.batches(chain.from_iterable(plan.groups))
        surveyed = survey(batches, aborted, keys, producers, bytes_max)
        keys.settle(checkpoint)
    finally:
        keys.close()
    horizon_ms = min(plan.now_ms + plan.config.delete_retention_ms, INT64_MAX)
    survival = Survival(keys, surveyed, aborted, producers, plan.now_ms, horizon_ms, bytes_max)
    for bases in plan.groups:
        try:
            rewritten = _rewrite_group(sources, bases, plan, survival)
        except BaseException:
            remove_draft(disk, directory, bases[0])
            raise
        if rewritten is not None:
            yield rewritten


class _Sources:
    """The sealed segments, which are read here and nothing else. Their indexes are not used: they
    may not be written yet."""

    def __init__(self, disk: Disk, directory: Path, checkpoint: Callable[[], None]) -> None:
        self.disk = disk
        self.directory = directory
        self._checkpoint = checkpoint

    def size(self, base: int) -> int:
        return self.disk.size(self.directory / file_name(base, ".log"))

    def batches(self, bases: Iterable[int]) -> Iterator[Batch]:
        """Raise CorruptBatch."""
        for base in bases:
            yield from self._batches(self.directory / file_name(base, ".log"))

    def _batches(self, path: Path) -> Iterator[Batch]:
        file = self.disk.open(path, must_exist=True)
        position = 0
        while position < file.size:
            self._checkpoint()
            chunk, end = file.read(position, _READ_BYTES), 0
            for start, header in iterate_batches(chunk, torn_tail_allowed=True):
                end = start + header.size
                yield header, chunk[start:end]
            if not end:
                header = peek_header(chunk)
                end = header.size
                if position + end > file.size:
                    raise CorruptBatch(f"the batch at {position} of {path.name} is cut off")
                yield header, file.read(position, end)
            position += end


def _rewrite_group(
    sources: _Sources, bases: Bases, plan: Plan, survival: Survival
) -> Rewritten | None:
    """The new segment in the place of these. None if there is one and it would be the same."""
    survival.transactions.retained = []
    draft: Segment | None = None
    unchanged = 0
    for (header, data), is_last in _marked_last(sources.batches(bases)):
        kept = survival.kept(header, data, is_last)
        if draft is None:
            if kept is data and len(bases) == 1:
                unchanged += 1
                continue
            draft = _begin_draft(sources, bases[0], plan, unchanged)
        if kept is not None:
            draft.append(kept, header if kept is data else peek_header(kept))
    if draft is None:
        return None
    for aborted in survival.transactions.retained:
        draft.note_aborted(aborted)
    draft.seal()
    draft.flush()
    return Rewritten(bases, sum(map(sources.size, bases)), draft.size)


def _begin_draft(sources: _Sources, base: int, plan: Plan, unchanged: int) -> Segment:
    """A new segment with as many batches of the old one, which it begins with."""
    remove_draft(sources.disk, sources.directory, base)
    interval = plan.config.index_interval_bytes
    draft = Segment(sources.disk, sources.directory, base, interval, draft=CLEANED)
    for (header, data), _ in zip(sources.batches([base]), range(unchanged), strict=False):
        draft.append(data, header)
    return draft


def _marked_last(batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
    previous = next(batches, None)
    for batch in batches:
        assert previous is not None
        yield previous, False
        previous = batch
    if previous is not None:
        yield previous, True


def remove_draft(disk: Disk, directory: Path, base: int) -> None:
    for suffix in SUFFIXES:
        path = directory / file_name(base, suffix + CLEANED)
        if disk.exists(path):
            disk.remove(path)


def _first_uncleanable(
    segments: Segments, first_dirty: int, last_stable_offset: int, now_ms: int
) -> int | None:
    """The base of the first segment that is active, undecided, or too young. None if it takes more
    than one turn to look: how old those are that were looked at is known the next time."""
    lag_ms = segments.config.min_compaction_lag_ms
    may_be_opened = OPENED_AT_ONCE
    for base, end in pairwise(segments.bases):
        if end > last_stable_offset:
            return base
        if lag_ms > 0 and end > first_dirty:
            if not segments.has_known_age(base):
                if not may_be_opened:
                    return None
                may_be_opened -= 1
            if segments.newest_ms(base) > now_ms - lag_ms:
                return base
    return segments.bases[-1]


def _is_overdue(segments: Segments, dirty: Sequence[int], now_ms: int) -> bool:
    """Whether one of them has waited for too long, as far as can be seen in a turn: what is known
    of these need not be looked at the next time."""
    due_ms = now_ms - max(segments.config.max_compaction_lag_ms, 0)
    may_be_opened = OPENED_AT_ONCE
    for base in dirty if due_ms > 0 else ():
        if not segments.has_known_start(base):
            if not may_be_opened:
                break
            may_be_opened -= 1
        if 0 < segments.first_timestamp(base) < due_ms:
            return True
    return False


def _groups(segments: Segments, bases: Sequence[int]) -> Iterator[Bases]:
    """Consecutive segments that fit into one even if nothing goes."""
    config = segments.config
    group: list[int] = []
    group_bytes = 0
    for base in bases:
        size = segments.size_of(base)
        group_bytes += size
        entries = group_bytes // max(config.index_interval_bytes, 1) + 2
        is_full = (
            group_bytes > config.segment_bytes
            or len(group) >= JOINED_AT_ONCE
            or entries * _INDEX_ENTRY_BYTES > config.segment_index_bytes
            or (group and segments.end_of(base) - 1 - group[0] > OFFSET_SPAN_MAX)
        )
        if group and is_full:
            yield tuple(group)
            group, group_bytes = [], size
        group.append(base)
    yield tuple(group)
