"""`pyk queue redrive`: dead letters, sent back to where they came from."""

from __future__ import annotations

import time

import click

from pyk.cli.consume import chosen
from pyk.cli.offsets import Point, parse_offsets
from pyk.cli.options import complete_topics, with_cluster
from pyk.cli.output import Field, Format, Row, format_option, show_report
from pyk.cli.root import REFUSED
from pyk.client.cluster import Cluster
from pyk.client.connection import Unreachable
from pyk.client.offsets import Isolation
from pyk.client.redriving import Choice, Outcome, Place, Redrive
from pyk.errors import KafkaError

REDRIVEN = (
    Field("group", "the queue that had given the records up"),
    Field("topic", "where they came from, and go to"),
    Field("partition", "its number"),
    Field("dead_partition", "where they are, of the topic of dead letters"),
    Field("start", "the offset there of the first"),
    Field("end", "the offset after the last"),
    Field("records", "how many"),
    Field("status", "PLANNED, OK when they are sent, or the error's name"),
    Field("message", "what is to be said about it"),
)


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-g", "--group", "groups", multiple=True, help="Only what this queue has given up.")
@click.option(
    "-t",
    "--topic",
    "sources",
    multiple=True,
    shell_complete=complete_topics,
    help="Only what came from this topic.",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    type=click.IntRange(0),
    help="Only what is in this partition of the dead letters.",
)
@click.option(
    "-o", "--offset", default="start", help="Only these offsets of the dead letters: 10:20, @-1h."
)
@click.option("-n", "--num", type=click.IntRange(1), help="So many at most.")
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@format_option(*REDRIVEN)
@with_cluster
def redrive(
    cluster: Cluster,
    topic: str,
    groups: tuple[str, ...],
    sources: tuple[str, ...],
    numbers: tuple[int, ...],
    offset: str,
    num: int | None,
    execute: bool,
    format_: Format,
) -> None:
    """Send dead letters back to the partitions that they came from.

    Without --execute it only shows what it would do. A letter goes back with its key, value and
    own headers, to be read by all who read that topic, and is never sent again: how far it is, is
    kept as offsets of the group pyk.redrive/GROUP/TOPIC, also if it is interrupted. One redrive of
    a topic is to run at a time.

    \b
    pyk queue redrive orders-dead
    pyk queue redrive orders-dead -g billing -n 100 --execute
    pyk queue redrive orders-dead -o @-1h --execute
    """
    offsets = parse_offsets(offset, time.time())
    partitions = chosen(cluster, [topic], numbers)
    spans = offsets.resolve(cluster, partitions, Isolation.READ_COMMITTED, stops_at_end=True)
    choice = Choice(
        spans=spans,
        groups=frozenset(groups),
        topics=frozenset(sources),
        count_max=num,
        is_ranged=offsets.begin != Point("start"),
    )
    running = Redrive(cluster, topic, choice)
    try:
        if execute:
            running.carry_out()
        else:
            running.plan()
    except (KafkaError, Unreachable, KeyboardInterrupt):
        if execute:
            show_outcomes(running, format_, is_done=True)
            click.echo("pyk: it is not finished; what is sent already is not sent again", err=True)
        raise
    show_outcomes(running, format_, is_done=execute)
    comment(topic, running, is_done=execute)
    if any(outcome.error for outcome in running.outcomes.values()):
        raise click.exceptions.Exit(REFUSED)


def show_outcomes(running: Redrive, format_: Format, *, is_done: bool) -> None:
    outcomes = sorted(running.outcomes.items())
    show_report([told(*each, is_done=is_done) for each in outcomes], REDRIVEN, format_)


def told(place: Place, outcome: Outcome, *, is_done: bool) -> Row:
    error, message = outcome.error, None
    if error is not None:
        message = error.message
    elif outcome.found:
        message = f"{outcome.found} more were sent by a run that was interrupted"
    return {
        "group": place.source.group_id,
        "topic": place.source.topic,
        "partition": place.partition,
        "dead_partition": place.dead_partition,
        "start": outcome.start if outcome.count else None,
        "end": outcome.end if outcome.count else None,
        "records": outcome.count,
        "status": error.code.name if error else "OK" if is_done else "PLANNED",
        "message": message,
    }


def comment(topic: str, running: Redrive, *, is_done: bool) -> None:
    if running.others:
        count = "1 record is" if running.others == 1 else f"{running.others} records are"
        click.echo(f"pyk: {count} no dead letter, and left alone", err=True)
    if running.left_behind:
        count = "1 letter is" if running.left_behind == 1 else f"{running.left_behind} letters are"
        click.echo(f"pyk: {count} not known to be sent: see the errors, and run it again", err=True)
    if not running.outcomes:
        click.echo(f"pyk: there is nothing in {topic} that was not sent back already", err=True)
    elif not is_done:
        click.echo("pyk: nothing has been changed; add --execute to do it", err=True)
