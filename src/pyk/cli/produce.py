"""`pyk produce`: records from lines of the input."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import click

from pyk.cli.formats import BadInput, InputParser, Parsed, compile_output, parse_header, unescape
from pyk.cli.options import complete_topics, with_cluster
from pyk.client.cluster import Cluster
from pyk.client.connection import Unreachable
from pyk.client.producing import Acked, Producer
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.compression import Compression
from pyk.wire.records import Headers

CHUNK_BYTES: Final = 256 * 1024
END: Final = b""
PROGRESS_INTERVAL: Final = 0.5
ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-f", "template", metavar="TEMPLATE", help=r"How the input is read.  [default: %v\n]")
@click.option("-D", "--delimiter", help=r"What ends a record.  [default: \n]")
@click.option("-K", "--key-separator", help="What is between key and value.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="A header.")
@click.option("-Z", "--tombstone", is_flag=True, help="An empty value is none: a tombstone.")
@click.option("-p", "--partition", type=click.IntRange(0), help="[default: by the key]")
@click.option(
    "-z",
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option(
    "-l",
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this instead of the input; may be given more than once.",
)
@click.option("-o", "--output", metavar="TEMPLATE", help=r"Print for each record: '%t %p %o\n'.")
@click.option("--no-create", is_flag=True, help="Do not have the broker create the topic.")
@with_cluster
def produce(
    cluster: Cluster,
    topic: str,
    template: str | None,
    delimiter: str | None,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    tombstone: bool,
    partition: int | None,
    compression: str,
    acks: str,
    files: tuple[Path, ...],
    output: str | None,
    no_create: bool,
) -> None:
    """Send each line of the input as a record.

    \b
    Templates  %k key %v value %h headers (k=v,k2=v2) %T timestamp %p partition
               %K %V the size of a key or value that comes later, -1 for null
               %% percent \\n \\r \\t \\0 \\\\ \\xNN

    A field ends where the text after it begins, so -f '%k:%v\\n' is -K :. Keys go to the partition
    that Java's client would choose.
    """
    if template is not None and (delimiter is not None or key_separator is not None):
        raise click.UsageError("-f and -D or -K exclude each other")
    parser = InputParser.compile(template or line_template(delimiter, key_separator))
    common = Common(
        topic,
        None if key is None else os.fsencode(key),
        tuple(parse_header(os.fsencode(header)) for header in headers),
        partition,
        tombstone,
    )
    known = cluster.topic(topic, may_create=not no_create)
    if partition is not None and partition not in known.partitions:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic} has no partition {partition}; it has {len(known.partitions)}",
        )
    progress = Progress(output)
    producer = Producer(
        cluster,
        acks=ACKS[acks],
        compression=Compression[compression.upper()],
        may_create=not no_create,
        on_ack=progress.add,
    )
    try:
        with closing(progress):
            send_all(producer, common, parser, files)
    except BadInput as bad:
        raise click.ClickException(f"{bad}. What came before it was sent.") from bad
    except (KafkaError, Unreachable, OSError, KeyboardInterrupt):
        say_how_far(producer)
        raise


def say_how_far(producer: Producer) -> None:
    """So that whoever was interrupted knows where to go on."""
    count, left = producer.acknowledged, producer.taken - producer.acknowledged
    said = f"the records up to number {count} are" if count else "no record is"
    rest = f"; some of the next {left} may be there" if left else ""
    click.echo(f"pyk: {said} acknowledged{rest}", err=True)


class Common(NamedTuple):
    """What all records have, unless the input says otherwise."""

    topic: str
    key: bytes | None
    headers: Headers
    partition: int | None
    is_tombstone_if_empty: bool

    def send(self, producer: Producer, parsed: Parsed) -> None:
        producer.send(
            self.topic,
            None if self.is_tombstone_if_empty and not parsed.value else parsed.value,
            key=self.key if parsed.key is None else parsed.key,
            headers=(*parsed.headers, *self.headers),
            partition=self.partition if parsed.partition is None else parsed.partition,
            timestamp=parsed.timestamp,
        )


def send_all(
    producer: Producer, common: Common, parser: InputParser, files: tuple[Path, ...]
) -> None:
    """Raise BadInput when everything before it is sent."""
    try:
        for chunk in chunks(files):
            if chunk is None:
                producer.flush()
                continue
            for parsed in parser.feed(chunk) if chunk else parser.close():
                common.send(producer, parsed)
    except BadInput:
        producer.flush()
        raise
    producer.flush()


def line_template(delimiter: str | None, key_separator: str | None) -> str:
    end = "\\n" if delimiter is None else delimiter
    separator = "" if key_separator is None else f"%k{key_separator.replace('%', '%%')}"
    if not unescape(end) or key_separator == "":
        raise click.UsageError("a delimiter cannot be empty")
    return f"{separator}%v{end.replace('%', '%%')}"


def chunks(files: tuple[Path, ...]) -> Iterator[bytes | None]:
    """The input as it comes, END where it or a file of it ends, and None where more of it is not
    there yet."""
    if files:
        for path in files:
            try:
                with path.open("rb") as file:
                    while data := file.read(CHUNK_BYTES):
                        yield data
            except OSError as failed:
                # Of a read that fails Python does not say of which file.
                raise OSError(failed.errno, failed.strerror, str(path)) from failed
            yield END
        return
    descriptor = sys.stdin.fileno()
    while data := os.read(descriptor, CHUNK_BYTES):
        yield data
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
    yield END


class Progress:
    """What is told of records that are acknowledged: a line each if asked for, and on a terminal
    how many there are."""

    def __init__(self, output: str | None) -> None:
        self._output = None if output is None else compile_output(output)
        self._is_watched = sys.stderr.isatty() and not sys.stdin.isatty()
        self._records = 0
        self._bytes = 0
        self._next = time.monotonic() + PROGRESS_INTERVAL
        self._was_shown = False

    def add(self, acked: list[Acked]) -> None:
        self._records += len(acked)
        if self._output is not None:
            out = sys.stdout.buffer
            out.write(b"".join(self._output(*each) for each in acked))
            out.flush()
        if self._is_watched:
            sizes = (len(each.record.key or b"") + len(each.record.value or b"") for each in acked)
            self._bytes += sum(sizes)
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + PROGRESS_INTERVAL
                self._was_shown = True
                self._show("\r")

    def close(self) -> None:
        if self._was_shown:
            self._show("\r")
            click.echo(err=True)

    def _show(self, before: str) -> None:
        text = f"{before}{self._records:,} records, {self._bytes / 1e6:,.1f} MB"
        click.echo(text, nl=False, err=True)
