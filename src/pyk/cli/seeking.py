"""Where a group is to go on reading: what was asked for, as an offset of each partition."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import click

from pyk.cli.offsets import Point, parse_duration, parse_point, resolve_point
from pyk.client.cluster import Cluster
from pyk.client.group_offsets import Committed, fetch_offsets
from pyk.client.groups import Group, describe_groups
from pyk.client.offsets import EARLIEST, LATEST, find_offsets
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

_NUMBERS: Final = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*")


class Current(NamedTuple):
    """Where the group is, or the end where it has not been yet."""


class Shift(NamedTuple):
    by: int


class Given(NamedTuple):
    """An offset for each partition, from a file or from another group."""

    offsets: Mapping[TopicPartition, int]
    source: str


Aim: TypeAlias = Point | Current | Shift | Given


class Move(NamedTuple):
    before: int | None
    after: int
    note: str | None
    """Why it is not the offset that was asked for."""


class Named(NamedTuple):
    """A topic as the command line names it, with all of its partitions or with some."""

    topic: str
    partitions: tuple[int, ...]

    def has(self, partition: TopicPartition) -> bool:
        return partition.topic == self.topic and (
            not self.partitions or partition.partition in self.partitions
        )


def parse_topics(given: Iterable[str]) -> list[Named]:
    """`orders`, `orders,audit` or `orders:0,2`. Raise UsageError."""
    found = []
    for text in given:
        topic, colon, numbers = text.partition(":")
        if not colon:
            found += [Named(name, ()) for name in text.split(",") if name]
        elif topic and _NUMBERS.fullmatch(numbers):
            found.append(Named(topic, tuple(map(int, numbers.split(",")))))
        else:
            raise click.UsageError(f"{text!r} is not a topic, nor one with partitions: orders:0,2")
    return found


def partitions_of(cluster: Cluster, named: Iterable[Named]) -> list[TopicPartition]:
    """Raise KafkaError for what is not there."""
    found: dict[TopicPartition, None] = {}
    for topic, numbers in named:
        known = cluster.topic(topic)
        for number in numbers or known.partitions:
            if number not in known.partitions:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{topic} has no partition {number}; it has {len(known.partitions)}",
                )
            found[TopicPartition(topic, number)] = None
    return list(found)


def parse_aim(to: str | None, by: int | None, by_duration: str | None) -> Aim:
    """Of these one is given. Raise UsageError."""
    if by is not None:
        return Shift(by)
    if by_duration is not None:
        return Point("time", int(time.time() * 1000) - parse_duration(by_duration))
    assert to is not None
    return Current() if to == "current" else parse_point(to, time.time())


def parse_plan(lines: Iterable[str], group: str, source: str) -> Given:
    """`topic,partition,offset` as Kafka's tool exports it, with the group before it if there are
    several; or with blanks, as rpk has it. Raise UsageError."""
    found = {}
    for number, line in enumerate(lines, 1):
        match re.split(r"\s*,\s*|\s+", line.strip().replace('"', "")):
            case [""]:
                continue
            case [topic, partition, offset] if (partition + offset).isdecimal():
                found[TopicPartition(topic, int(partition))] = int(offset)
            case [of, topic, partition, offset] if (partition + offset).isdecimal():
                if of == group:
                    found[TopicPartition(topic, int(partition))] = int(offset)
            case _:
                raise click.UsageError(
                    f"line {number} of {source} is not of the form topic,partition,offset"
                )
    if not found:
        raise click.UsageError(f"{source} has no offsets for {group}")
    return Given(found, source)


def of_other_group(cluster: Cluster, other: str) -> Given:
    """Raise KafkaError, ClickException."""
    found = {p: each.offset for p, each in committed_by(cluster, other).items()}
    if not found:
        raise click.ClickException(f"group {other} has committed nothing to go by")
    return Given(found, f"group {other}")


def committed_by(cluster: Cluster, group: str) -> dict[TopicPartition, Committed]:
    """Raise KafkaError."""
    found = fetch_offsets(cluster, [group])[group]
    if isinstance(found, KafkaError):
        raise found
    return found


def exists_idle(cluster: Cluster, name: str) -> bool:
    """Whether the group is there. Raise KafkaError if it has members: they would go on from where
    they are, and commit that."""
    found = describe_groups(cluster, [name])[name]
    if isinstance(found, KafkaError):
        # One that is not there may be given offsets to begin with.
        if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise found
    check_idle(found, "group")
    return True


def check_idle(found: Group, noun: str) -> None:
    """Raise KafkaError if it has members. It is a group, or a queue, as its command has it."""
    if found.is_active:
        name, count = found.group_id, len(found.members)
        members = "1 member" if count == 1 else f"{count} members"
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"{noun} {name} is {found.state} and has {members}: stop them first, or wait until "
            f"they time out; pyk {noun} describe -m {name} shows them",
        )


def plan(
    cluster: Cluster, group: str, aim: Aim, named: Sequence[Named]
) -> dict[TopicPartition, Move]:
    """The moves that bring a group to its aim. Without topics, those that it has committed offsets
    of, or that the aim has. Raise KafkaError, ClickException."""
    committed = {p: each.offset for p, each in committed_by(cluster, group).items()}
    if isinstance(aim, Given):
        partitions = [p for p in aim.offsets if not named or any(each.has(p) for each in named)]
    else:
        partitions = partitions_of(cluster, named) if named else list(committed)
    if not partitions:
        if isinstance(aim, Given):
            names = ", ".join(each.topic for each in named)
            raise click.ClickException(f"{aim.source} has no offsets of {names}")
        raise click.ClickException(f"group {group} has committed nothing yet: say --topics")
    return moves(cluster, aim, committed, partitions)


def moves(
    cluster: Cluster,
    aim: Aim,
    before: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Move]:
    """From where a group is in partitions, as far as it is anywhere, to its aim. Raise KafkaError,
    ClickException."""
    starts = find_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = find_offsets(cluster, dict.fromkeys(starts, LATEST))
    aimed = _aimed(cluster, aim, before, starts, ends)
    return {
        each: _move(before.get(each), aimed(each), starts[each], ends[each])
        for each in sorted(starts)
    }


def _aimed(
    cluster: Cluster,
    aim: Aim,
    committed: Mapping[TopicPartition, int],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> Callable[[TopicPartition], int]:
    """Which offset is meant, be it there or not. Raise KafkaError, ClickException."""
    match aim:
        case Current():
            return lambda partition: committed.get(partition, ends[partition])
        case Given(offsets):
            return offsets.__getitem__
        case Point():
            return resolve_point(cluster, aim, starts, ends).__getitem__
        case Shift(by):
            if missing := [each for each in sorted(starts) if each not in committed]:
                topic, number = missing[0]
                raise click.ClickException(
                    f"there is no committed offset of {topic}:{number} to go on from: say --to"
                )
            return lambda partition: committed[partition] + by


def _move(before: int | None, aimed: int, start: int, end: int) -> Move:
    if aimed > end:
        return Move(before, end, f"{aimed} is after the end")
    if aimed < start:
        return Move(before, start, f"{aimed} is before the start")
    return Move(before, aimed, None)
