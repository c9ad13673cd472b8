"""Which partitions a reader wants, and where in the data directories their logs are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyk.disk import RealDisk
from pyk.log.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    DamagedCheckpoint,
    read_offsets,
)
from pyk.log.files import partition_directories, partition_of
from pyk.log.stored_log import NOTHING_KNOWN, Known, LogDamaged, StoredLog
from pyk.spark.bounds import Bounds
from pyk.spark.options import Assigned, Bound, InvalidOption, Matching, Named, ReadOptions
from pyk.types import TopicPartition

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def find_logs(options: ReadOptions, bounds: Bounds) -> list[StoredLog]:
    """The logs of the partitions that are selected and within bounds, in order. Raise
    InvalidOption, LogDamaged."""
    directories = _directories(options.paths)
    selected = _selected(options, directories)
    for name, bound in (("starting", options.starting), ("ending", options.ending)):
        _check_all_are_given(name, bound, selected)
    known = {root: _checkpoints(root) for root in options.paths}
    return [
        StoredLog(
            directories[partition],
            partition,
            known[directories[partition].parent].get(partition, NOTHING_KNOWN),
        )
        for partition in selected
        if bounds.has(partition)
    ]


def _directories(paths: tuple[Path, ...]) -> dict[TopicPartition, Path]:
    found: dict[TopicPartition, Path] = {}
    for root in paths:
        if not root.is_dir():
            raise InvalidOption(f"path is to be a data directory, and {root} is none")
        for directory in partition_directories(root):
            partition = partition_of(directory)
            assert partition is not None
            if partition in found:
                raise InvalidOption(
                    f"path has {directory.name} twice: in {found[partition].parent} and in {root}"
                )
            found[partition] = directory
    if not found:
        listed = ", ".join(map(str, paths))
        raise InvalidOption(f"path is to be a data directory, and {listed} has no partitions")
    return found


def _selected(
    options: ReadOptions, directories: Mapping[TopicPartition, Path]
) -> list[TopicPartition]:
    where = ", ".join(map(str, options.paths))
    match options.selection:
        case Named(topics):
            missing = topics - {partition.topic for partition in directories}
            if missing:
                raise InvalidOption(f"subscribe: {where} has no topic {', '.join(sorted(missing))}")
            return sorted(each for each in directories if each.topic in topics)
        case Matching(pattern):
            # As in Spark's Kafka source: any part of the name may match, and Java's way of listing
            # topics leaves the internal ones out.
            named = (each for each in directories if each.topic not in INTERNAL)
            return sorted(each for each in named if re.search(pattern, each.topic))
        case Assigned(partitions):
            gone = sorted(f"{topic}-{number}" for topic, number in partitions - directories.keys())
            if gone:
                raise InvalidOption(f"assign: {where} has no partition {', '.join(gone)}")
            return sorted(partitions)


def _check_all_are_given(name: str, bound: Bound, selected: list[TopicPartition]) -> None:
    """As Kafka's source wants it: what is not said of a partition is not guessed."""
    if bound.default is not None:
        return
    differing = set(selected) ^ bound.by_partition.keys()
    if differing:
        listed = ", ".join(f"{topic}-{number}" for topic, number in sorted(differing))
        raise InvalidOption(
            f"the offsets or times of {name} are to be given for the partitions that are read, all"
            f" of them and no others: it is not so with {listed}"
        )


def _checkpoints(root: Path) -> dict[TopicPartition, Known]:
    try:
        starts = read_offsets(RealDisk(), root / LOG_START_OFFSETS)
        points = read_offsets(RealDisk(), root / RECOVERY_POINTS)
    except DamagedCheckpoint as wrong:
        raise LogDamaged(f"{root}: {wrong}") from None
    return {
        partition: Known(starts.get(partition, 0), points.get(partition, 0))
        for partition in starts.keys() | points.keys()
    }
