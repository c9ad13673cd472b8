"""The files of a partition's directory, read as they are: nothing is opened for writing, locked or
repaired, so that a broker may go on with them meanwhile.

What is wrong with a file is a `Damage` among what is found in it, with its position.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyk.log.producers import DamagedSnapshot, Producers
from pyk.log.snapshots import decode_snapshot
from pyk.log.stored_segment import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    DamagedBatch,
    IndexEntries,
    StoredSegment,
)
from pyk.log.transactions import AbortedTransaction
from pyk.types import TopicPartition
from pyk.wire.batch import BatchHeader, check_crc
from pyk.wire.compression import CorruptBatch

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")


class Damage(NamedTuple):
    position: int
    reason: str


class Batch(NamedTuple):
    position: int
    header: BatchHeader
    data: bytes
    is_whole: bool
    """Whether its CRC is right, so that its records are what was sent."""


def read_batches(path: Path) -> Iterator[Batch | Damage]:
    """The batches of a `.log` file, up to the first of which the size cannot be right."""
    segment = StoredSegment(path, base_offset(path))
    try:
        for placed in segment.batches():
            position, header = placed
            data = segment.load(placed)
            try:
                check_crc(data, 0, header)
                yield Batch(position, header, data, True)
            except CorruptBatch as wrong:
                yield Batch(position, header, data, False)
                yield Damage(position, str(wrong))
    except DamagedBatch as wrong:
        yield Damage(wrong.position, str(wrong))


def read_offset_index(path: Path) -> Iterator[tuple[int, int] | Damage]:
    """Offsets and positions in the log. Each is looked up there, if the log is beside it."""
    base = base_offset(path)
    log = path.with_suffix(".log")
    previous = (-1, -1)
    entries, rest = _entries(path, OFFSET_ENTRY)
    for at, (relative, position) in entries:
        yield base + relative, position
        if relative <= previous[0] or position <= previous[1]:
            yield Damage(at, "it is not after the entry before it")
        elif log.exists() and (reason := _misses(log, position, base + relative)):
            yield Damage(at, reason)
        previous = relative, position
    yield from rest


def _misses(log: Path, position: int, offset: int) -> str | None:
    """Why the batch for an entry is not where it says."""
    header = StoredSegment(log, base_offset(log)).peek(position)
    if header is None:
        return f"there is no batch at {position} of the log"
    if header.base_offset > offset:
        return f"the batch at {position} of the log begins with {header.base_offset}"
    return None


def read_time_index(path: Path) -> Iterator[tuple[int, int] | Damage]:
    """Timestamps and offsets."""
    base = base_offset(path)
    previous: tuple[int, int] | None = None
    entries, rest = _entries(path, TIME_ENTRY)
    for at, (timestamp, relative) in entries:
        yield timestamp, base + relative
        if previous and (timestamp <= previous[0] or relative < previous[1]):
            yield Damage(at, "it is not after the entry before it")
        previous = timestamp, relative
    yield from rest


def read_transaction_index(path: Path) -> Iterator[AbortedTransaction | Damage]:
    entries, rest = _entries(path, _TRANSACTION_ENTRY)
    for at, (version, *fields) in entries:
        if version != 0:
            yield Damage(at, f"an entry of version {version}")
            return
        yield AbortedTransaction(*fields)
    yield from rest


def read_snapshot(path: Path) -> Producers | Damage:
    producers = Producers()
    try:
        producers.restore(decode_snapshot(path.read_bytes()))
    except DamagedSnapshot as wrong:
        return Damage(0, str(wrong))
    return producers


def _entries(
    path: Path, shape: struct.Struct
) -> tuple[list[tuple[int, tuple[int, ...]]], list[Damage]]:
    """Positions and entries, up to the zeros with which Kafka fills an index in use; and what is
    wrong with the end of the file."""
    found = IndexEntries(path, shape)
    entries = [(number * shape.size, found[number]) for number in range(len(found))]
    rest = found.size % shape.size
    if not rest:
        return entries, []
    return entries, [Damage(found.size - rest, f"{rest} bytes that are no whole entry")]


def partition_of(directory: Path) -> TopicPartition | None:
    """Whose a directory is, by its name: nobody's if it is being deleted, or another thing."""
    found = _PARTITION.fullmatch(directory.name)
    return None if found is None else TopicPartition(found[1], int(found[2]))


def partition_directories(directory: Path) -> list[Path]:
    """Those of the partitions in a data directory, by topic and number."""
    found = {each: partition_of(each) for each in directory.iterdir() if each.is_dir()}
    named = {each: partition for each, partition in found.items() if partition is not None}
    return sorted(named, key=named.__getitem__)


def base_offset(path: Path) -> int:
    """The offset that a file's name says."""
    return int(path.name.split(".")[0])


def is_log_file(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.name.split(".")[0].isdecimal()
