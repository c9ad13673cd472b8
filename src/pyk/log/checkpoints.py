"""The small files of a log directory that are replaced as a whole, in Kafka's formats.

- Offset checkpoints: one number for each partition, such as how far its log is known to be on disk.
- `partition.metadata`: the id of the topic that a partition's directory belongs to.
- `.kafka_cleanshutdown`: everything was flushed before the broker stopped, so nothing needs to be
  recovered. It is written last and taken away first.

What cannot be such a file is a `DamagedCheckpoint`. An empty one has no entries: Kafka makes them
all when it starts, and here none is ever left empty by a crash.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pyk.disk import Disk
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.checksum import crc32c

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_VERSION: Final = 0
_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
_NUMBER: Final = r"[0-9]{1,19}"
_METADATA: Final = (
    r"(version: ([0-9]{1,10})\ntopic_id: ([a-zA-Z0-9_-]{22}))(?:\nchecksum: ([0-9a-f]{8}))?\n?"
)


class DamagedCheckpoint(Exception):
    """The file is not what its name says."""


class CleanShutdown(msgspec.Struct, rename="camel", omit_defaults=True):
    version: int
    broker_epoch: int
    to_recover: list[str] = []
    """Partitions for which it does not speak, by their directories: pyk's own. Kafka passes over
    it."""


def read_offsets(disk: Disk, path: Path) -> dict[TopicPartition, int]:
    """The offset of each partition; none if there is no file. Raise DamagedCheckpoint."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in read_entries(disk, path, columns=3):
        if not re.fullmatch(_TOPIC, topic):
            raise DamagedCheckpoint(f"{path.name} has a topic {topic!r}")
        key = TopicPartition(topic, parse_number(path, partition, INT32_MAX))
        if key in offsets:
            raise DamagedCheckpoint(f"{path.name} has {topic}-{partition} twice")
        offsets[key] = parse_number(path, offset, INT64_MAX)
    return offsets


def write_offsets(disk: Disk, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_entries(disk, path, sorted(lines))


def read_topic_id(disk: Disk, directory: Path) -> Uuid | None:
    """Whose partition is in the directory, if it says so. Raise DamagedCheckpoint."""
    path = directory / PARTITION_METADATA
    try:
        found = re.fullmatch(_METADATA, _text(disk, path))
    except FileNotFoundError:
        return None
    if found is None or int(found[2]) != _VERSION:
        raise DamagedCheckpoint(f"{path.name} has another form or version")
    # Kafka writes none, and does not look for more lines than it knows.
    if found[4] is not None and found[4] != _checksum(found[1]):
        raise DamagedCheckpoint(f"{path.name} has a checksum that is not its own")
    topic_id = Uuid(base64.urlsafe_b64decode(found[3] + "=="))
    # Four bits of the last character say nothing. If they are set, it is not what anyone wrote.
    if topic_id == ZERO_UUID or _printed(topic_id) != found[3]:
        raise DamagedCheckpoint(f"{path.name} has a topic id {found[3]!r}")
    return topic_id


def write_topic_id(disk: Disk, directory: Path, topic_id: Uuid) -> None:
    """With a checksum: the log of an id that nobody knows is not opened, so a flipped bit must not
    make another id of it."""
    text = f"version: {_VERSION}\ntopic_id: {_printed(topic_id)}"
    data = f"{text}\nchecksum: {_checksum(text)}".encode()
    disk.replace(directory / PARTITION_METADATA, data)


def mark_clean_shutdown(
    disk: Disk, directory: Path, broker_epoch: int, to_recover: Sequence[str] = ()
) -> None:
    """Say that everything in the directory is on disk, which the caller has made sure of, but for
    some partitions."""
    mark = CleanShutdown(_VERSION, broker_epoch, list(to_recover))
    disk.replace(directory / CLEAN_SHUTDOWN, msgspec.json.encode(mark))


def read_clean_shutdown(disk: Disk, directory: Path) -> CleanShutdown | None:
    """What the last shutdown has said, if it was clean. Raise DamagedCheckpoint."""
    path = directory / CLEAN_SHUTDOWN
    if not disk.exists(path):
        return None
    try:
        mark = msgspec.json.decode(disk.read(path), type=CleanShutdown)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path.name}: {error}") from None
    if mark.version != _VERSION:
        raise DamagedCheckpoint(f"{path.name} has the version {mark.version}")
    return mark


def remove_clean_shutdown(disk: Disk, directory: Path) -> None:
    """What happens from now on the mark does not vouch for. It is gone durably."""
    path = directory / CLEAN_SHUTDOWN
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(directory)


def read_entries(disk: Disk, path: Path, columns: int) -> list[list[str]]:
    """The lines after version and count, each cut into its columns; none if there is no file.

    Raise DamagedCheckpoint.
    """
    try:
        text = _text(disk, path)
    except FileNotFoundError:
        return []
    if not text:
        return []
    # Without its end of line the last number may have lost digits.
    *lines, rest = text.split("\n")
    if rest or len(lines) < 2:
        raise DamagedCheckpoint(f"{path.name} is cut off")
    version, count, *entries = lines
    if parse_number(path, version, INT32_MAX) != _VERSION:
        raise DamagedCheckpoint(f"{path.name} has the version {version}")
    if parse_number(path, count, INT32_MAX) != len(entries):
        raise DamagedCheckpoint(f"{path.name} has {len(entries)} entries and counts {count}")
    rows = [entry.split(" ") for entry in entries]
    if any(len(row) != columns for row in rows):
        raise DamagedCheckpoint(f"{path.name} has a line without {columns} columns")
    return rows


def write_entries(disk: Disk, path: Path, entries: Iterable[str]) -> None:
    lines = list(entries)
    text = "\n".join([str(_VERSION), str(len(lines)), *lines, ""])
    disk.replace(path, text.encode())


def parse_number(path: Path, text: str, maximum: int) -> int:
    """A number in ASCII digits, of which `int` would take more forms. Raise DamagedCheckpoint."""
    if not re.fullmatch(_NUMBER, text) or int(text) > maximum:
        raise DamagedCheckpoint(f"{path.name} has {text!r} for a number")
    return int(text)


def _text(disk: Disk, path: Path) -> str:
    try:
        return disk.read(path).decode()
    except UnicodeDecodeError:
        raise DamagedCheckpoint(f"{path.name} is not text") from None


def _checksum(text: str) -> str:
    return f"{crc32c(text.encode()):08x}"


def _printed(topic_id: Uuid) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
