"""`pyk queue peek`: the records that a queue has before it, without taking any of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import Final

import click

from pyk.cli.consume import ISOLATION, style_option, template_option, writer
from pyk.cli.options import complete_queues, topics_option, with_cluster
from pyk.cli.queue_description import Offsets, offsets_of
from pyk.cli.seeking import parse_topics
from pyk.client.cluster import Cluster
from pyk.client.configs import Resource, ResourceType, describe_configs
from pyk.client.offsets import EARLIEST, LATEST, Isolation, find_offsets
from pyk.client.reading import Reader, Span
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

ISOLATION_KEY: Final = "share.isolation.level"
RESET_KEY: Final = "share.auto.offset.reset"
BY_DURATION: Final = "by_duration:"


@click.command()
@click.argument("name", metavar="GROUP", shell_complete=complete_queues)
@topics_option
@click.option(
    "-n",
    "--num",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="So many of each partition.",
)
@template_option
@style_option
@with_cluster
def peek(
    cluster: Cluster,
    name: str,
    topics: tuple[str, ...],
    num: int,
    template: str | None,
    style: str | None,
) -> None:
    """Print the records that a queue has before it, partition by partition.

    Nothing is acquired: whoever works on the queue does not notice. Records are shown from where
    the queue begins, as its isolation level lets its members see them; some of them may be in
    work, or done out of turn. Templates are those of pyk consume.
    """
    write = writer(template, style)
    known = wanted(cluster, name, topics)
    configured = settings_of(cluster, name)
    isolation = ISOLATION.get(configured.get(ISOLATION_KEY) or "", Isolation.READ_UNCOMMITTED)
    ends = find_offsets(cluster, dict.fromkeys(known, LATEST), isolation)
    starts = begins(cluster, known, configured.get(RESET_KEY) or "latest", ends)
    for partition in sorted(known):
        span = Span(starts[partition], ends[partition])
        for received in islice(Reader(cluster, {partition: span}, isolation), num):
            write(received)
    done = sum(
        max(ends[each] - starts[each] - offset.lag, 0)
        for each, offset in known.items()
        if offset.lag is not None
    )
    if done and isolation is Isolation.READ_UNCOMMITTED:
        after = "offset after the start is" if done == 1 else "offsets after the start are"
        click.echo(f"pyk: {done} {after} done already: only the leader knows which", err=True)


def wanted(cluster: Cluster, name: str, topics: tuple[str, ...]) -> Offsets:
    """The partitions that the queue has begun, or those that are named. Raise KafkaError."""
    known = offsets_of(cluster, [name])[name]
    if not known:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"there is no queue {name} that has begun to read something; pyk queue list has those "
            "that are there",
        )
    named = parse_topics(topics)
    for each in named:
        if not any(each.has(partition) for partition in known):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"queue {name} has nothing of {each.topic}; pyk queue describe -o {name} shows "
                "what it has",
            )
    return {
        partition: offset
        for partition, offset in known.items()
        if not named or any(each.has(partition) for each in named)
    }


def settings_of(cluster: Cluster, name: str) -> Mapping[str, str | None]:
    """What is in effect for the group, by whoever it was set. Raise KafkaError."""
    found = describe_configs(cluster, Resource(ResourceType.GROUP, name))
    return {each.name: each.value for each in found}


def begins(
    cluster: Cluster, known: Offsets, reset: str, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where the queue goes on, or would begin if somebody fetched now. Raise KafkaError."""
    firsts = find_offsets(cluster, dict.fromkeys(known, EARLIEST))
    unknown = [partition for partition, offset in known.items() if offset.start is None]
    resolved: Mapping[TopicPartition, int] = ends
    if reset == "earliest":
        resolved = firsts
    elif reset.startswith(BY_DURATION):
        from pyk.config.group import seconds_of

        seconds = seconds_of(reset.removeprefix(BY_DURATION)) or 0
        moment = int((time.time() - seconds) * 1000)
        found = find_offsets(cluster, dict.fromkeys(unknown, moment))
        resolved = {each: at if at >= 0 else ends[each] for each, at in found.items()}
    return {
        partition: resolved[partition]
        if offset.start is None
        else max(offset.start, firsts[partition])
        for partition, offset in known.items()
    }
