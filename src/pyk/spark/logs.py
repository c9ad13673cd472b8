"""Which partitions a reader wants, and where in the data directories their logs are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
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
from pyk.metadata.journal import DIRECTORY_NAME, DamagedStore, read_beside
from pyk.metadata.records import TOPICS, read_topic
from pyk.spark.bounds import Bounds
from pyk.spark.options import Assigned, Bound, InvalidOption, Matching, Named, ReadOptions
from pyk.types import TopicPartition


class DataLost(Exception):
    """Some of what was asked for is not there any more."""


INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def find_logs(options: ReadOptions, bounds: Bounds) -> list[StoredLog]:
    """The logs of the partitions that are selected and within bounds, in order. Raise
    InvalidOption, LogDamaged, DataLost."""
    directories = _directories(options.paths)
    unused = _unused(options, directories)
    selected = _selected(options, directories.keys() | unused.keys())
    for name, bound in (("starting", options.starting), ("ending", options.ending)):
        _check_all_are_given(name, bound, selected)
    known = {root: _checkpoints(root) for root in options.paths}
    found = []
    for partition in filter(bounds.has, selected):
        directory = directories.get(partition) or unused[partition]
        kept = known[directory.parent].get(partition, NOTHING_KNOWN)
        if partition in unused and kept != NOTHING_KNOWN and options.fails_on_data_loss:
            raise DataLost(
                f"{directory} is not there, and once had records before {max(kept)};"
                " failOnDataLoss=false goes on without them"
            )
        found.append(StoredLog(directory, partition, kept, may_be_absent=partition in unused))
    return found


def _unused(
    options: ReadOptions, directories: Mapping[TopicPartition, Path]
) -> dict[TopicPartition, Path]:
    """The partitions that have no log yet, as pyk makes one when it is first used, and where it is
    going to be. Raise InvalidOption if there is nothing in the directories at all, LogDamaged."""
    found: dict[TopicPartition, Path] = {}
    for root in options.paths:
        for name, count in _topics(root, skips_damage=options.skips_damage).items():
            for partition in (TopicPartition(name, number) for number in range(count)):
                if partition not in directories:
                    found[partition] = root / f"{name}-{partition.partition}"
    if not directories and not found:
        listed = ", ".join(map(str, options.paths))
        raise InvalidOption(f"path is to be a data directory, and {listed} has no partitions")
    return found


def _topics(root: Path, *, skips_damage: bool) -> dict[str, int]:
    """The topics that a broker's metadata has, with their numbers of partitions. Nothing, if the
    data directory has no metadata, such as one of Kafka. Raise LogDamaged."""
    try:
        state = read_beside(RealDisk(), root / DIRECTORY_NAME)
        entries = state.range(TOPICS) if state is not None else []
        return {
            entry.key.removeprefix(TOPICS): len(read_topic(entry.value).partitions)
            for entry in entries
        }
    except (DamagedStore, ValueError) as wrong:
        if skips_damage:
            return {}
        raise LogDamaged(f"{root / DIRECTORY_NAME}: {wrong}") from None


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
    return found


def _selected(
    options: ReadOptions, partitions: AbstractSet[TopicPartition]
) -> list[TopicPartition]:
    where = ", ".join(map(str, options.paths))
    match options.selection:
        case Named(topics):
            missing = topics - {partition.topic for partition in partitions}
            if missing:
                raise InvalidOption(f"subscribe: {where} has no topic {', '.join(sorted(missing))}")
            return sorted(each for each in partitions if each.topic in topics)
        case Matching(pattern):
            # As in Spark's Kafka source: any part of the name may match, and Java's way of listing
            # topics leaves the internal ones out.
            named = (each for each in partitions if each.topic not in INTERNAL)
            return sorted(each for each in named if re.search(pattern, each.topic))
        case Assigned(assigned):
            gone = sorted(f"{topic}-{number}" for topic, number in assigned - partitions)
            if gone:
                raise InvalidOption(f"assign: {where} has no partition {', '.join(gone)}")
            return sorted(assigned)


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
