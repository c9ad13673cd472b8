"""`pyk queue`: share groups, how much they have left to do, and where they are to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from pyk.cli.options import (
    chosen,
    chosen_to_delete,
    complete_queues,
    confirm,
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
from pyk.cli.queue_description import (
    CONFIGS,
    LISTED,
    MEMBERS,
    OFFSETS,
    STATE,
    described_configs,
    described_members,
    described_offsets,
    described_state,
    listed,
    offsets_of,
)
from pyk.cli.queue_peek import peek
from pyk.cli.queue_redrive import redrive
from pyk.cli.seeking import check_idle, moves, parse_aim, parse_topics, partitions_of
from pyk.client.cluster import Cluster
from pyk.client.groups import Group, delete_groups, list_groups
from pyk.client.share_groups import describe_share_groups, list_share_groups
from pyk.client.share_offsets import alter_share_offsets, delete_share_offsets
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

STATES = ("Stable", "Empty", "Dead")
RESET = (
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("before", "where the queue begins now; null if nobody has fetched yet"),
    Field("after", "where it is to begin"),
    Field("status", "PLANNED, OK when it is done, or the error's name"),
    Field("message", "why it is not what was asked for"),
)
DELETED_OFFSETS = (
    Field("topic", "its name"),
    Field("status", "OK, or the error's name"),
    Field("message", "what it means, if it was refused"),
)
WHAT_TO_DO = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such queue; pyk queue list has those that are there",
    ErrorCode.NON_EMPTY_GROUP: "it has members: stop them first; pyk queue describe -m has them",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the queue has nothing of this topic",
}


@click.group()
def queue() -> None:
    """List, describe, peek into, reset and redrive queues: share groups.

    \b
    Something is not done? Then:
      pyk queue describe orders-workers     how much is left, and who works on it
      pyk queue peek orders-workers         what comes next
      pyk queue redrive orders-dead         send back what was given up
    """


queue.add_command(peek)


@queue.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only those in this state; may be given more than once.",
)
@click.option("-r", "--regex", help="Only those whose whole name matches.")
@format_option(*LISTED)
@with_cluster
def list_(cluster: Cluster, states: tuple[str, ...], regex: str | None, format_: Format) -> None:
    """List queues, with what they have left to do."""
    found = described(cluster, chosen((), regex, lambda: all_names(cluster)), required=())
    offsets = offsets_of(cluster, [each.group_id for each in found])
    rows = [
        listed(each, offsets[each.group_id]) for each in found if not states or each.state in states
    ]
    show(rows, LISTED, format_)


@queue.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_queues)
@click.option("-s", "--state", is_flag=True, help="Its state, assignor and coordinator.")
@click.option("-o", "--offsets", is_flag=True, help="Where it is in each partition, and its lag.")
@click.option("-m", "--members", is_flag=True, help="Its members, and what they read.")
@click.option("-c", "--configs", is_flag=True, help="What is configured for it.")
@click.option("-a", "--all", "everything", is_flag=True, help="All of these.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only the offsets of this topic.")
@click.option("-r", "--regex", help="Also all whose whole name matches.")
@format_option(*STATE, offsets=OFFSETS, members=MEMBERS, configs=CONFIGS)
@with_cluster
def describe(
    cluster: Cluster,
    names: tuple[str, ...],
    state: bool,
    offsets: bool,
    members: bool,
    configs: bool,
    everything: bool,
    topics: tuple[str, ...],
    regex: str | None,
    format_: Format,
) -> None:
    """Describe queues, or all of them: their state and offsets, unless told otherwise.

    Lag is what is not done: records that nobody has yet, and those that members work on. Before
    START all is done; after it some may be.
    """
    if everything:
        state = offsets = members = configs = True
    elif not (state or offsets or members or configs):
        state = offsets = True
    wanted = chosen(names, regex, lambda: all_names(cluster))
    found = described(cluster, wanted, required=names)
    known = offsets_of(cluster, [each.group_id for each in found] if state or offsets else [])
    rows = described_offsets(cluster, found, known, topics) if offsets else {}
    documents: list[Row] = []
    for each in found:
        name = each.group_id
        document: dict[str, Value] = {"group": name}
        document |= described_state(each, known[name]) if state else {}
        document |= {"offsets": rows[name]} if offsets else {}
        document |= {"members": described_members(each)} if members else {}
        document |= {"configs": described_configs(cluster, name)} if configs else {}
        documents.append(document)
    sections = {"offsets": OFFSETS, "members": MEMBERS, "configs": CONFIGS}
    show_sections(documents, STATE, sections, format_)


def all_names(cluster: Cluster) -> list[str]:
    return [each.group_id for each in list_share_groups(cluster)]


def described(cluster: Cluster, names: Sequence[str], required: Sequence[str]) -> list[Group]:
    """Raise KafkaError for the first that cannot be described, unless it was only listed and has
    gone meanwhile."""
    found = []
    for name, each in describe_share_groups(cluster, names).items():
        if isinstance(each, Group):
            found.append(each)
        elif each.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(each.code, f"queue {name}: {each}")
        elif name in required:
            raise not_found(cluster, name)
    return found


def not_found(cluster: Cluster, name: str) -> KafkaError:
    """There is no such queue, though there may be a group."""
    other = next((each for each in list_groups(cluster) if each.group_id == name), None)
    if other is None:
        said = f"there is no queue {name}; pyk queue list has those that are there"
    else:
        said = f"{name} is a {other.type} group, and no queue; pyk group is for those"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, said)


@queue.command()
@click.argument("name", metavar="GROUP", shell_complete=complete_queues)
@click.option(
    "--to", metavar="WHERE", help="earliest, latest, current, an offset, +2, -3, @TIME or @-1h30m."
)
@click.option("--by", type=int, metavar="N", help="So many on from where it begins, or back.")
@click.option("--by-duration", metavar="1h30m", help="To what was new so long ago.")
@topics_option
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@format_option(*RESET)
@with_cluster
def reset(
    cluster: Cluster,
    name: str,
    to: str | None,
    by: int | None,
    by_duration: str | None,
    topics: tuple[str, ...],
    execute: bool,
    format_: Format,
) -> None:
    """Let a queue begin elsewhere, while it has no members.

    Without --execute it only shows what it would do. Without --topics it is about all partitions
    that the queue has begun. Everything from there on is delivered, be it done or not, and as if
    for the first time.

    \b
    pyk queue reset billing --to earliest
    pyk queue reset billing --to @2026-11-17T09:00:00Z --topics orders --execute
    pyk queue reset billing --by -100 --topics orders:0,2 --execute
    """
    if sum(each is not None for each in (to, by, by_duration)) != 1:
        raise click.UsageError("say where to, once: --to, --by or --by-duration")
    aim = parse_aim(to, by, by_duration)
    is_new = not exists_idle(cluster, name)
    known = offsets_of(cluster, [name])[name]
    before = {each: offset.start for each, offset in known.items() if offset.start is not None}
    named = parse_topics(topics)
    partitions = partitions_of(cluster, named) if named else list(known)
    if not partitions:
        raise click.ClickException(f"queue {name} has begun nothing yet: say --topics")
    planned = moves(cluster, aim, before, partitions)
    results: Mapping[TopicPartition, KafkaError | None] = {}
    if execute:
        wanted = {each: move.after for each, move in planned.items()}
        try:
            results = alter_share_offsets(cluster, name, wanted)
        except KafkaError as refused:
            raise refusal(f"queue {name}", refused, WHAT_TO_DO) from refused
    rows = [
        moved(each, move, results.get(each), WHAT_TO_DO, is_done=execute)
        for each, move in planned.items()
    ]
    report(rows, RESET, format_, results.values())
    if not execute:
        say_nothing_has_changed(f"queue {name}", is_new=is_new)


def exists_idle(cluster: Cluster, name: str) -> bool:
    """Whether the queue is there. Raise KafkaError if it has members."""
    found = describe_share_groups(cluster, [name])[name]
    if isinstance(found, KafkaError):
        if found.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        # One that is not there may be told where to begin.
        if any(each.group_id == name for each in list_groups(cluster)):
            raise not_found(cluster, name)
        return False
    check_idle(found, "queue")
    return True


@queue.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_queues)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    help="Forget this topic; may be given more than once.",
)
@yes_option
@format_option(*DELETED_OFFSETS)
@with_cluster
def delete_offsets(
    cluster: Cluster, name: str, topics: tuple[str, ...], yes: bool, format_: Format
) -> None:
    """Forget what a queue without members has done of topics."""
    described(cluster, [name], required=[name])
    confirm(f"Forget what {name} has done of {', '.join(topics)}?", yes=yes, is_needed=False)
    try:
        results = delete_share_offsets(cluster, name, topics)
    except KafkaError as refused:
        raise refusal(f"queue {name}", refused, WHAT_TO_DO) from refused
    rows: list[Row] = [
        {"topic": topic, **outcome(error, WHAT_TO_DO)} for topic, error in results.items()
    ]
    report(rows, DELETED_OFFSETS, format_, results.values())


@queue.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_queues)
@click.option("-r", "--regex", help="Also all whose whole name matches.")
@yes_option
@format_option(*DELETED)
@with_cluster
def delete(
    cluster: Cluster, names: tuple[str, ...], regex: str | None, yes: bool, format_: Format
) -> None:
    """Delete queues that have no members, and what is known of them. Topics stay as they are."""
    named = chosen_to_delete(names, regex, lambda: all_names(cluster))
    wanted = [each.group_id for each in described(cluster, named, required=names)]
    if not wanted:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"no queue matches {regex}")
    confirm(f"Delete {', '.join(wanted)}?", yes=yes, is_needed=regex is not None)
    report_deleted(delete_groups(cluster, wanted), WHAT_TO_DO, format_)


queue.add_command(redrive)
