"""`pyk consume`: the records of topics, printed as they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import click

from pyk.cli.formats import compile_output
from pyk.cli.offsets import parse_offsets
from pyk.cli.options import complete_topics, with_cluster
from pyk.cli.records import as_document, as_text
from pyk.client.cluster import Cluster
from pyk.client.offsets import Isolation
from pyk.client.reading import Reader, Received
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

ISOLATION: Final = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
FIELDS: Final = """\
topic           its name
partition       its number
offset          of the record in the partition
timestamp       in milliseconds since 1970
key             as text; null if there is none
key_base64      in place of key, if that is not UTF-8
value           as text; null if there is none, which is a tombstone
value_base64    in place of value, if that is not UTF-8
headers         a list of objects with key and value, or value_base64
timestamp_type  CREATE_TIME, or LOG_APPEND_TIME if the broker set it"""


def explain(ctx: click.Context, _: click.Parameter, value: str) -> str:
    if value == "help":
        click.echo(FIELDS)
        ctx.exit()
    return value


template_option = click.option(
    "-f", "template", metavar="TEMPLATE", help=r"Such as '%t %p %o %k %v\n'."
)
style_option = click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "help"]),
    default=None,
    callback=explain,
    is_eager=True,
    help="Lines to read, or a JSON object on each.  [default: text on a terminal, else json]",
)


@click.command()
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "-o",
    "--offset",
    default="start",
    show_default=True,
    help="Where to begin, and to stop: start, end, 47, +2, -3, 10:20, @2026-11-17, @-1h:end ...",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    type=click.IntRange(0),
    help="Only this partition; may be given more than once.",
)
@click.option("-n", "--num", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at what is the end now.")
@template_option
@click.option(
    "--isolation",
    type=click.Choice(list(ISOLATION)),
    default="read_uncommitted",
    show_default=True,
    help="Whether to see what transactions have not committed.",
)
@style_option
@with_cluster
def consume(
    cluster: Cluster,
    topics: tuple[str, ...],
    offset: str,
    numbers: tuple[int, ...],
    num: int | None,
    exit_at_end: bool,
    template: str | None,
    isolation: str,
    style: str | None,
) -> None:
    """Print the records of topics, and go on until interrupted, unless told where to stop.

    \b
    Offsets    start end 47 +2 (after the start) -3 (before the end)
               10:20 :end +2:+5 (ranges, without their end)
               @TIME @TIME: @:TIME @TIME:TIME
    Times      1700000000 1700000000000 2026-11-17 2026-11-17T12:00:00Z -1h30m
               and to end with also 1h (after the first) and end
    Templates  %t topic %p partition %o offset %k key %v value %h headers
               %T timestamp %K %V sizes, -1 for null %% percent
               \\n \\r \\t \\0 \\\\ \\xNN

    Of several partitions records come in the order in which they arrive; of one, in that of their
    offsets.
    """
    offsets = parse_offsets(offset, time.time())
    write = writer(template, style)
    level = ISOLATION[isolation]
    spans = offsets.resolve(
        cluster, chosen(cluster, topics, numbers), level, stops_at_end=exit_at_end
    )
    reader = Reader(cluster, spans, level)
    left = num
    while not reader.is_finished:
        for received in reader.poll():
            write(received)
            if left is not None:
                left -= 1
                if not left:
                    return
        # What has come is shown before waiting for more.
        sys.stdout.flush()


def chosen(cluster: Cluster, topics: Sequence[str], numbers: Sequence[int]) -> list[TopicPartition]:
    """The partitions to read. Raise KafkaError for one that is not there."""
    found = []
    for name in dict.fromkeys(topics):
        known = cluster.topic(name).partitions
        for number in dict.fromkeys(numbers) or known:
            if number not in known:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{name} has no partition {number}; it has {len(known)}",
                )
            found.append(TopicPartition(name, number))
    return found


def writer(template: str | None, style: str | None) -> Callable[[Received], None]:
    """What prints a record. Raise UsageError."""
    if template is not None and style is not None:
        raise click.UsageError("-f and --format exclude each other")
    if template is not None:
        output = compile_output(template)
        raw = sys.stdout.buffer

        def write_raw(received: Received) -> None:
            raw.write(output(received.topic, received.partition, received.record))

        return write_raw
    shown = as_line if (style or ("text" if sys.stdout.isatty() else "json")) == "text" else as_json
    out = sys.stdout

    def write_line(received: Received) -> None:
        out.write(shown(received) + "\n")

    return write_line


def as_json(received: Received) -> str:
    document = {
        "topic": received.topic,
        "partition": received.partition,
        **as_document(received.record),
        "timestamp_type": received.timestamp_type.name,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def as_line(received: Received) -> str:
    shown = as_text(as_document(received.record))
    return f"{received.topic}-{received.partition}  {shown}"
