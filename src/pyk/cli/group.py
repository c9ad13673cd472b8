"""`pyk group`: groups of a cluster, how far they have read, and where they are to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TextIO

import click

from pyk.cli.group_description import (
    LISTED,
    MEMBERS,
    OFFSETS,
    STATE,
    described_members,
    described_offsets,
    described_state,
    listed,
    total_lag,
)
from pyk.cli.options import (
    chosen,
    chosen_to_delete,
    complete_groups,
    confirm,
    pattern,
    topics_option,
    with_cluster,
    yes_option,
)
from pyk.cli.outcomes import (
    DELETED,
    moved,
    outcome,
    refusal,
    report,
    report_deleted,
    say_nothing_has_changed,
)
from pyk.cli.output import Field, Format, Row, Value, format_option, show, show_sections
from pyk.cli.seeking import (
    Aim,
    committed_by,
    exists_idle,
    of_other_group,
    parse_aim,
    parse_plan,
    parse_topics,
    partitions_of,
    plan,
)
from pyk.client.cluster import Cluster
from pyk.client.group_offsets import commit_offsets, delete_offsets
from pyk.client.groups import Group, delete_groups, describe_groups, list_groups
from pyk.client.redrive_progress import GROUP_PREFIX
from pyk.client.share_groups import SHARE
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
TYPES = ("classic", "consumer", "share", "streams")
DESCRIBED_TYPES = (None, "classic", "consumer")
"""None is what old brokers say, which know only classic ones."""

MOVED = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("before", "the offset that the group has committed; null if there is none"),
    Field("after", "the offset that it is to go on from"),
    Field("status", "PLANNED, OK when it is done, or the error's name"),
    Field("message", "why it is not what was asked for"),
)
DELETED_OFFSETS = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("status", "OK, or the error's name"),
    Field("message", "what it means, if it was refused"),
)
WHAT_TO_DO = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group; pyk group list has those that are there",
    ErrorCode.NON_EMPTY_GROUP: "it has members: stop them first; pyk group describe -m has them",
    ErrorCode.UNKNOWN_MEMBER_ID: "members have joined meanwhile: stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members read this topic: stop them first",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
}


@click.group()
def group() -> None:
    """List, describe, seek and delete groups."""


@group.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state; may be given more than once.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups of this type; may be given more than once.",
)
@click.option("-r", "--regex", help="Only those whose whole name matches.")
@format_option(*LISTED)
@with_cluster
def list_(
    cluster: Cluster,
    states: tuple[str, ...],
    types: tuple[str, ...],
    regex: str | None,
    format_: Format,
) -> None:
    """List groups."""
    # They are sorted out here, since brokers before Kafka 3.8 would not do so by type.
    wanted = pattern(regex)
    rows = [
        listed(found)
        for found in list_groups(cluster)
        if (not states or found.state in states)
        and (not types or found.type in types)
        and wanted.fullmatch(found.group_id)
    ]
    show(rows, LISTED, format_)


@group.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@click.option("-s", "--state", is_flag=True, help="Its state, assignor and coordinator.")
@click.option("-o", "--offsets", is_flag=True, help="Its offsets, and the lag of each partition.")
@click.option("-m", "--members", is_flag=True, help="Its members, and what they read.")
@click.option("-a", "--all", "everything", is_flag=True, help="All three.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only the offsets of this topic.")
@click.option("-r", "--regex", help="Also all groups whose whole name matches.")
@format_option(*STATE, offsets=OFFSETS, members=MEMBERS)
@with_cluster
def describe(
    cluster: Cluster,
    names: tuple[str, ...],
    state: bool,
    offsets: bool,
    members: bool,
    everything: bool,
    topics: tuple[str, ...],
    regex: str | None,
    format_: Format,
) -> None:
    """Describe groups, or all of them: their state and offsets, unless told otherwise.

    Lag is what is left to read of what is there. A group that has never committed an offset of a
    partition has no lag there: where it would begin is up to its members.
    """
    if everything:
        state = offsets = members = True
    elif not (state or offsets or members):
        state = offsets = True
    wanted = chosen(names, regex, lambda: describable(cluster))
    found = described(cluster, wanted, required=names)
    rows = described_offsets(cluster, found, topics) if offsets or state else {}
    documents: list[Row] = []
    for each in found:
        document: dict[str, Value] = {"group": each.group_id}
        if state:
            document |= described_state(each) | {"total_lag": total_lag(rows[each.group_id])}
        document |= {"offsets": rows[each.group_id]} if offsets else {}
        document |= {"members": described_members(each)} if members else {}
        documents.append(document)
    show_sections(documents, STATE, {"offsets": OFFSETS, "members": MEMBERS}, format_)


def describable(cluster: Cluster) -> list[str]:
    return [each.group_id for each in list_groups(cluster) if each.type in DESCRIBED_TYPES]


def described(cluster: Cluster, names: Sequence[str], required: Sequence[str]) -> list[Group]:
    """Raise KafkaError for the first that cannot be described, unless it was only listed and has
    gone meanwhile."""
    found = []
    for name, each in describe_groups(cluster, names).items():
        if isinstance(each, Group):
            found.append(each)
        elif name in required or each.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(each.code, why_not(name, each))
    return found


def why_not(name: str, error: KafkaError) -> str:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return f"group {name}: {error}"
    # A broker says so of a group that is there and of another type, too.
    reason = f" ({error.message})" if error.message else ""
    return f"there is no consumer group {name}{reason}; pyk group list has those that are there"


@group.command()
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--to", metavar="WHERE", help="earliest, latest, current, an offset, +2, -3, @TIME or @-1h30m."
)
@click.option("--by", type=int, metavar="N", help="So many on from where it is, or back.")
@click.option("--by-duration", metavar="1h30m", help="To what was new so long ago.")
@click.option(
    "--to-group",
    metavar="OTHER",
    shell_complete=complete_groups,
    help="To where another group is.",
)
@click.option(
    "--from-file",
    "--to-file",
    "file",
    type=click.File(),
    help="To what a file has: lines of topic,partition,offset; - is stdin.",
)
@topics_option
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@click.option("--export", is_flag=True, help="Print lines for --from-file, and for Kafka's tool.")
@format_option(*MOVED)
@with_cluster
def seek(
    cluster: Cluster,
    name: str,
    to: str | None,
    by: int | None,
    by_duration: str | None,
    to_group: str | None,
    file: TextIO | None,
    topics: tuple[str, ...],
    execute: bool,
    export: bool,
    format_: Format,
) -> None:
    """Set where a group goes on reading, while it has no members.

    Without --execute it only shows what it would do. Without --topics it is about all partitions
    of which the group has committed an offset. An offset that is not there any more, or not yet,
    becomes the first or the end.

    \b
    pyk group seek billing --to earliest
    pyk group seek billing --to @2026-11-17T09:00:00Z --topics orders --execute
    pyk group seek billing --by -100 --topics orders:0,2 --execute
    pyk group seek billing --to current --export > saved.csv
    """
    given = [each for each in (to, by, by_duration, to_group, file) if each is not None]
    if len(given) != 1:
        raise click.UsageError(
            "say where to, once: --to, --by, --by-duration, --to-group or --from-file"
        )
    if export and execute:
        raise click.UsageError("--export only prints what --execute would do: leave out one")
    named = parse_topics(topics)
    aim: Aim
    if file is not None:
        aim = parse_plan(file, name, file.name)
    elif to_group is not None:
        aim = of_other_group(cluster, to_group)
    else:
        aim = parse_aim(to, by, by_duration)
    is_new = not exists_idle(cluster, name)
    moves = plan(cluster, name, aim, named)
    results: Mapping[TopicPartition, KafkaError | None] = {}
    if execute:
        try:
            results = commit_offsets(cluster, name, {p: move.after for p, move in moves.items()})
        except KafkaError as refused:
            raise refusal(f"group {name}", refused, WHAT_TO_DO) from refused
    if export:
        # At once: half of a plan would look like one.
        click.echo("\n".join(f"{at.topic},{at.partition},{to.after}" for at, to in moves.items()))
    else:
        rows = [
            moved(each, move, results.get(each), WHAT_TO_DO, is_done=execute)
            for each, move in moves.items()
        ]
        report(rows, MOVED, format_, results.values())
    if not execute:
        say_nothing_has_changed(f"group {name}", is_new=is_new)


@group.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@click.option("-r", "--regex", help="Also all whose whole name matches.")
@yes_option
@format_option(*DELETED)
@with_cluster
def delete(
    cluster: Cluster, names: tuple[str, ...], regex: str | None, yes: bool, format_: Format
) -> None:
    """Delete groups that have no members, and their offsets.

    An expression is about consumer groups and classic ones. Queues have a command of their own, and
    what keeps how far a redrive is has to be named.
    """
    known = cache(lambda: {each.group_id: each.type for each in list_groups(cluster)})
    wanted, types = chosen_to_delete(names, regex, known), known()
    queues = {name for name in names if types.get(name) == SHARE}
    left_alone = [each for each in wanted if each not in names and not is_plain(each, types[each])]
    for name in left_alone:
        what = "how far a redrive is" if name.startswith(GROUP_PREFIX) else f"a {types[name]} group"
        click.echo(f"pyk: {name} matches, and is left alone: it is {what}", err=True)
    doomed = [each for each in wanted if each not in queues and each not in left_alone]
    if not doomed and not queues:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"no group matches {regex}")
    if doomed:
        confirm(f"Delete {', '.join(doomed)}?", yes=yes, is_needed=regex is not None)
    results = delete_groups(cluster, doomed)
    said = "it is a queue: pyk queue delete is for those"
    results |= {name: KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, said) for name in sorted(queues)}
    report_deleted(results, WHAT_TO_DO, format_)


def is_plain(name: str, type_: str | None) -> bool:
    return type_ in DESCRIBED_TYPES and not name.startswith(GROUP_PREFIX)


@group.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@topics_option
@yes_option
@format_option(*DELETED_OFFSETS)
@with_cluster
def delete_offsets_(
    cluster: Cluster, name: str, topics: tuple[str, ...], yes: bool, format_: Format
) -> None:
    """Forget the offsets that a group has committed of topics that none of its members reads."""
    named = parse_topics(topics)
    if not named:
        raise click.UsageError("say which: --topics TOPIC, or TOPIC:0,1 for some partitions")
    committed = committed_by(cluster, name)
    # Also of a topic that is not there any more, and those of which there are none: the broker
    # has something to say about them.
    partitions = [each for each in committed if any(topic.has(each) for topic in named)]
    missing = [each for each in named if not any(each.has(p) for p in partitions)]
    partitions += partitions_of(cluster, missing)
    described_topics = ", ".join(topics)
    confirm(f"Forget what {name} has read of {described_topics}?", yes=yes, is_needed=False)
    try:
        results = delete_offsets(cluster, name, partitions)
    except KafkaError as refused:
        raise refusal(f"group {name}", refused, WHAT_TO_DO) from refused
    rows: list[Row] = [
        {**each._asdict(), **outcome(error, WHAT_TO_DO)} for each, error in sorted(results.items())
    ]
    report(rows, DELETED_OFFSETS, format_, results.values())
