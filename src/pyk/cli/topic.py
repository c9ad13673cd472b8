"""`pyk topic`: topics of a cluster, made, looked at, changed and removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from pyk.cli.options import (
    chosen_to_delete,
    complete_topics,
    confirm,
    parse_pairs,
    pattern,
    with_cluster,
    yes_option,
)
from pyk.cli.output import Field, Format, Row, Value, format_option, show, show_sections
from pyk.cli.root import REFUSED
from pyk.cli.topic_description import (
    CONFIGS,
    LISTED,
    PARTITIONS,
    SUMMARY,
    count,
    described_configs,
    described_partitions,
    listed,
    min_isr,
    summarised,
)
from pyk.client.cluster import Cluster
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.metadata import MetadataResponseTopic

STATUS = (
    Field("topic", "its name"),
    Field("status", "OK, or the error's name"),
    Field("message", "what the broker said about it, if it refused"),
)
TRIMMED = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("log_start", "its first offset now"),
    Field("status", "OK, or the error's name"),
)

partitions_option = click.option(
    "-p", "--partitions", type=click.IntRange(1), help="How many partitions."
)
configs_option = click.option(
    "-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic."
)


@click.group()
def topic() -> None:
    """Create, list, describe, alter, delete and trim topics."""


@topic.command()
@click.argument("names", nargs=-1, required=True)
@partitions_option
@click.option("-r", "--replicas", type=click.IntRange(1), help="How many replicas of each.")
@configs_option
@click.option("--if-not-exists", is_flag=True, help="Topics that are there are fine.")
@click.option("--dry-run", is_flag=True, help="Only ask whether they could be created.")
@format_option(*STATUS)
@with_cluster
def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    format_: Format,
) -> None:
    """Create topics. Partitions and replicas are the broker's defaults if not given."""
    from pyk.client.topics import BROKERS_DEFAULT, create_topics

    results = create_topics(
        cluster,
        dict.fromkeys(names),
        partitions=partitions or BROKERS_DEFAULT,
        replicas=replicas or BROKERS_DEFAULT,
        configs=parse_pairs(configs),
        validate_only=dry_run,
    )
    forgiven = ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None
    report(results, format_, forgiven)


@topic.command("list")
@click.option("-i", "--internal", is_flag=True, help="Also those of the broker itself.")
@click.option("-r", "--regex", help="Only those whose whole name matches.")
@format_option(*LISTED)
@with_cluster
def list_(cluster: Cluster, internal: bool, regex: str | None, format_: Format) -> None:
    """List topics."""
    wanted = pattern(regex)
    rows = [
        listed(found)
        for found in sorted(cluster.metadata().topics, key=lambda each: each.name or "")
        if (internal or not found.is_internal) and wanted.fullmatch(found.name or "")
    ]
    show(rows, LISTED, format_)


@topic.command()
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@click.option("-s", "--summary", is_flag=True, help="The summary.")
@click.option("-p", "--partitions", is_flag=True, help="The partitions.")
@click.option("-c", "--configs", is_flag=True, help="The whole configuration.")
@click.option("-a", "--all", "everything", is_flag=True, help="All three.")
@click.option("--under-replicated", is_flag=True, help="Partitions with replicas out of sync.")
@click.option("--unavailable", is_flag=True, help="Partitions without a leader.")
@click.option("--under-min-isr", is_flag=True, help="Partitions that refuse acks=all.")
@format_option(*SUMMARY, partitions=PARTITIONS, configs=CONFIGS)
@with_cluster
def describe(
    cluster: Cluster,
    names: tuple[str, ...],
    summary: bool,
    partitions: bool,
    configs: bool,
    everything: bool,
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    format_: Format,
) -> None:
    """Describe topics, or all of them.

    That is their summary and partitions, unless told otherwise. With one of the filters only
    partitions that are in such a state are shown, and topics that have any.
    """
    is_filtered = under_replicated or unavailable or under_min_isr
    if everything:
        summary = partitions = configs = True
    elif not (summary or partitions or configs):
        summary, partitions = not is_filtered, True
    documents: list[Row] = []
    for name in names or all_names(cluster):
        found = cluster.topic(name)
        settings = described_configs(cluster, name) if configs or summary or under_min_isr else []
        shown = described_partitions(cluster, found) if partitions or is_filtered else []
        if is_filtered:
            shown = [
                row
                for row in shown
                if (under_replicated and count(row, "isr") < count(row, "replicas"))
                or (unavailable and row["leader"] == -1)
                or (under_min_isr and count(row, "isr") < min_isr(settings))
            ]
            if not shown:
                continue
        document: dict[str, Value] = {"name": name}
        document |= summarised(found, settings) if summary else {}
        document |= {"partitions": shown} if partitions else {}
        document |= {"configs": settings} if configs else {}
        documents.append(document)
    show_sections(documents, SUMMARY, {"partitions": PARTITIONS, "configs": CONFIGS}, format_)


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@partitions_option
@configs_option
@click.option("--unset", multiple=True, metavar="KEY", help="A setting to go back to its default.")
@format_option(*STATUS)
@with_cluster
def alter(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    format_: Format,
) -> None:
    """Give a topic more partitions, or other settings."""
    from pyk.client.configs import Change, Operation, Resource, ResourceType, alter_configs
    from pyk.client.topics import create_partitions

    if not (partitions or configs or unset):
        raise click.UsageError("say what to alter: -p, -c or --unset")
    changes = [Change(key, Operation.SET, text) for key, text in parse_pairs(configs).items()]
    changes += [Change(key, Operation.UNSET) for key in unset]
    result: KafkaError | None = None
    is_half_done = False
    try:
        cluster.topic(name)
        if changes:
            alter_configs(cluster, Resource(ResourceType.TOPIC, name), changes)
            is_half_done = True
        if partitions:
            create_partitions(cluster, name, partitions)
    except KafkaError as refused:
        result = refused
        if is_half_done:
            result = KafkaError(refused.code, f"its settings are altered, and then: {refused}")
    report({name: result}, format_)


@topic.command()
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@click.option("-r", "--regex", help="Also all whose whole name matches.")
@yes_option
@format_option(*STATUS)
@with_cluster
def delete(
    cluster: Cluster, names: tuple[str, ...], regex: str | None, yes: bool, format_: Format
) -> None:
    """Delete topics, and all that is in them."""
    from pyk.client.topics import delete_topics

    wanted = chosen_to_delete(names, regex, lambda: all_names(cluster))
    if not wanted:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic matches {regex}")
    confirm(f"Delete {', '.join(wanted)}?", yes=yes, is_needed=regex is not None)
    report(delete_topics(cluster, wanted), format_)


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "-o",
    "--offset",
    required=True,
    help="What comes before it goes: an offset, end, or @ and a time as consume has it.",
)
@click.option("-p", "--partition", "numbers", multiple=True, type=click.IntRange(0))
@yes_option
@format_option(*TRIMMED)
@with_cluster
def trim(
    cluster: Cluster,
    name: str,
    offset: str,
    numbers: tuple[int, ...],
    yes: bool,
    format_: Format,
) -> None:
    """Delete the records of a topic that are before an offset."""
    import time

    from pyk.cli.offsets import Offsets, parse_point
    from pyk.client.topics import delete_records

    point = parse_point(offset, time.time(), "one place: end, 47, +2, -3, @2026-11-17 or @-1h")
    partitions = cluster.topic(name).all_partitions
    partitions = [p for p in partitions if not numbers or p.partition in numbers]
    partitions += [
        TopicPartition(name, n) for n in numbers if n not in cluster.topic(name).partitions
    ]
    spans = Offsets(point, None).resolve(cluster, partitions)
    before = {p: span.start for p, span in spans.items()}
    confirm(f"Delete the records of {name} before {offset}?", yes=yes, is_needed=False)
    results = delete_records(cluster, before)
    rows: list[Row] = [
        {
            "topic": name,
            "partition": partition.partition,
            "log_start": None if isinstance(found, KafkaError) else found,
            "status": found.code.name if isinstance(found, KafkaError) else "OK",
        }
        for partition, found in sorted(results.items())
    ]
    show(rows, TRIMMED, format_)
    if any(row["status"] != "OK" for row in rows):
        raise click.exceptions.Exit(REFUSED)


def report(
    results: Mapping[str, KafkaError | None], format_: Format, forgiven: ErrorCode | None = None
) -> None:
    """A row for each topic. An error that is not forgiven is the command's."""
    rows: list[Row] = [
        {
            "topic": name,
            "status": "OK" if error is None else error.code.name,
            "message": None if error is None else error.message,
        }
        for name, error in results.items()
    ]
    is_refused = any(error and error.code is not forgiven for error in results.values())
    is_plain = format_ in ("text", "wide") and not any(results.values())
    show(rows, STATUS[:2] if is_plain else STATUS, format_)
    if is_refused:
        raise click.exceptions.Exit(REFUSED)


def all_names(cluster: Cluster) -> list[str]:
    found: Iterable[MetadataResponseTopic] = cluster.metadata().topics
    return sorted(each.name or "" for each in found if not each.is_internal)
