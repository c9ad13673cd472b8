"""Logs that nobody has opened since a clean shutdown: whether maintenance has something to do for
them, from their files' names, sizes and last index entries. For any thread."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyk.disk import Disk
from pyk.log.config import UNLIMITED, LogConfig
from pyk.log.segment import file_name
from pyk.log.segments import is_segment_file
from pyk.types import TopicPartition

_TIME_ENTRY_BYTES = 12


class DormantLog(NamedTuple):
    disk: Disk
    directory: Path
    partition: TopicPartition
    config: LogConfig
    start_offset: int
    cleaned_until: int


def is_retention_due(log: DormantLog, now_ms: int) -> bool:
    """Whether a segment may have to go. Raise OSError."""
    bases = _bases(log)
    if not bases:
        return False
    if len(bases) > 1 and bases[1] <= log.start_offset:
        return True
    config = log.config
    if not config.is_deleted:
        return False
    if config.retention_bytes != UNLIMITED:
        sizes = [log.disk.size(log.directory / file_name(base, ".log")) for base in bases]
        if sum(sizes) - config.retention_bytes >= sizes[0] > 0:
            return True
    if config.retention_ms == UNLIMITED:
        return False
    return now_ms - _newest_ms(log, bases[0]) > config.retention_ms


def is_compaction_due(log: DormantLog, now_ms: int) -> bool:
    """Whether there is something that was not compacted yet. Raise OSError."""
    if not log.config.is_compacted:
        return False
    bases = _bases(log)
    return len(bases) > 1 and log.cleaned_until < bases[-1]


def _newest_ms(log: DormantLog, base: int) -> int:
    """About when the newest record of a segment was written: the last entry of its time index."""
    path = log.directory / file_name(base, ".log")
    if not log.disk.size(path):
        return 2**63
    try:
        file = log.disk.open(log.directory / file_name(base, ".timeindex"), must_exist=True)
    except FileNotFoundError:
        return log.disk.modified_ms(path)
    entry = file.read(file.size - _TIME_ENTRY_BYTES, 8) if file.size >= _TIME_ENTRY_BYTES else b""
    return int.from_bytes(entry, "big", signed=True) if entry else log.disk.modified_ms(path)


def _bases(log: DormantLog) -> list[int]:
    names = log.disk.names(log.directory)
    return [int(name[:20]) for name in names if is_segment_file(name, ".log")]
