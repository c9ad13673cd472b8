"""`pyk log`: what is in a data directory, without a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from pyk.cli.internal_records import Decoder, decoder, name_of
from pyk.cli.output import Field, Format, Row, cell, format_option, heading, show
from pyk.cli.records import as_document, as_text, moment
from pyk.cli.root import REFUSED
from pyk.errors import ProtocolError
from pyk.log.files import (
    Batch,
    Damage,
    is_log_file,
    partition_directories,
    read_batches,
    read_offset_index,
    read_snapshot,
    read_time_index,
    read_transaction_index,
)
from pyk.wire.batch import BatchHeader
from pyk.wire.prefixed import ControlType, decode_control_type
from pyk.wire.records import Record, read_records

INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024

BATCH = (
    Field("base_offset", "the first offset it covers"),
    Field("last_offset", "the last one"),
    Field("count", "how many records are in it"),
    Field("position", "where in the file it begins"),
    Field("size", "its bytes"),
    Field("max_timestamp", "the latest of its records', in milliseconds since 1970"),
    Field("compression", "its codec"),
    Field("leader_epoch", "of the leader that appended it"),
    Field("producer_id", "whose it is; -1 without idempotence"),
    Field("producer_epoch", "and in which epoch"),
    Field("base_sequence", "the sequence number of the first record"),
    Field("valid", "whether its CRC is right"),
    Field("flags", "transactional, control, append-time, delete-horizon"),
)
WIDTHS: Final = (11, 11, 6, 10, 8, 24, 11, 12, 11, 14, 13, 5, 5)
LISTED = (
    Field("partition", "the directory's name"),
    Field("segments", "how many .log files it has"),
    Field("size", "their bytes"),
    Field("first_offset", "the base offset of the first of them"),
    Field("last_base", "the base offset of the last"),
)
DUMP_HELP: Final = (
    Field("file", "the file that the object is about"),
    *BATCH,
    Field("records", "with --records: as consume prints them; of internal topics with a type"),
    Field("error", "in place of all but file and position: what is wrong there"),
)


@click.group()
def log() -> None:
    """Look into data directories and files, offline. Nothing is changed, and a broker may run."""


@log.command("list")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@format_option(*LISTED)
def list_(directory: Path, format_: Format) -> None:
    """List the partitions in a data directory."""
    rows: list[Row] = []
    for path in partition_directories(directory):
        logs = sorted(path.glob("*.log"))
        bases = [int(each.stem) for each in logs if each.stem.isdecimal()]
        rows.append(
            {
                "partition": path.name,
                "segments": len(logs),
                "size": sum(each.stat().st_size for each in logs),
                "first_offset": min(bases, default=None),
                "last_base": max(bases, default=None),
            }
        )
    show(rows, LISTED, format_)


@log.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--partition", "names", multiple=True, help="Only this, of a data directory: t-0.")
@click.option("--records", is_flag=True, help="The records of each batch, too.")
@click.option("-k", "--keys", multiple=True, help="Only records with this key, or of this group.")
@click.option("--raw", is_flag=True, help="Do not decode the records of internal topics.")
@click.option("--offsets", metavar="FROM:TO", help="Only these, without the last.")
@format_option(*DUMP_HELP)
def dump(
    path: Path,
    names: tuple[str, ...],
    records: bool,
    keys: tuple[str, ...],
    raw: bool,
    offsets: str | None,
    format_: Format,
) -> None:
    """Print the batches in a data directory, a partition's directory or a .log file, or what is in
    an .index, .timeindex, .txnindex or .snapshot file. With --format json, an object on each line.

    Records of __consumer_offsets, __transaction_state and __share_group_state are decoded.

    Damage is reported where it is, and makes the exit code 1.
    """
    wanted = Wanted(
        parse_range(offsets),
        {os.fsencode(key) for key in keys},
        has_records=records or bool(keys),
        is_raw=raw,
    )
    if format_ == "yaml":
        raise click.UsageError("a dump is text or json")
    write = write_json if format_ == "json" else TextDump(is_wide=format_ == "wide").write
    is_damaged = False
    for file in files_of(path, names):
        for found in dumped(file, wanted):
            is_damaged |= "error" in found
            write({"file": shown_path(path, file), **found})
    if is_damaged:
        raise click.exceptions.Exit(REFUSED)


class Wanted:
    """Which batches and records to print."""

    def __init__(
        self, offsets: range, keys: set[bytes], *, has_records: bool, is_raw: bool
    ) -> None:
        self.offsets = offsets
        self.keys = keys
        self.has_records = has_records
        self.is_raw = is_raw

    def has(self, header: BatchHeader) -> bool:
        return (
            header.base_offset < self.offsets.stop and header.last_offset >= self.offsets.start
        ) or header.last_offset < header.base_offset

    def documents(self, batch: Batch, decode: Decoder | None) -> list[dict[str, Any]]:
        """The records of a batch that are wanted. Raise ProtocolError."""
        found = []
        header = batch.header
        for record in read_records(batch.data, 0, header, bytes_max=INFLATED_BYTES_MAX):
            if record.offset not in self.offsets:
                continue
            decoded = decode(record) if decode and not header.is_control else None
            key = record.key if decoded is None else os.fsencode(name_of(decoded) or "")
            if not self.keys or key in self.keys:
                found.append(decoded or record_document(header, record))
        return found


def parse_range(text: str | None) -> range:
    first, colon, last = (text or ":").partition(":")
    if not all(part == "" or part.isdecimal() for part in (first, last)) or not colon:
        raise click.UsageError(f"{text!r} is not a range of offsets, such as 10:20")
    return range(int(first or 0), int(last or 2**63))


def files_of(path: Path, names: Sequence[str]) -> list[Path]:
    """The files to dump. Raise UsageError, ClickException."""
    if path.is_file():
        if names:
            raise click.UsageError("--partition is for a data directory")
        if not is_log_file(path):
            raise click.UsageError(f"{path.name} is not a file of a partition, such as 0...0.log")
        return [path]
    own = sorted(each for each in path.iterdir() if each.suffix == ".log" and is_log_file(each))
    if own and not names:
        return own
    directories = partition_directories(path)
    missing = set(names) - {each.name for each in directories}
    if missing:
        raise click.ClickException(f"{path} has no partition {', '.join(sorted(missing))}")
    if not directories and not own:
        raise click.ClickException(f"{path} has no partitions in it")
    chosen = [each for each in directories if not names or each.name in names]
    return [file for each in chosen for file in sorted(each.glob("*.log")) if is_log_file(file)]


def shown_path(root: Path, file: Path) -> str:
    return file.name if root.is_file() else str(file.relative_to(root))


def dumped(file: Path, wanted: Wanted) -> Iterator[dict[str, Any]]:
    match file.suffix:
        case ".log":
            yield from dumped_log(file, wanted)
        case ".index":
            for found in read_offset_index(file):
                yield damage(found) or dict(zip(("offset", "position"), found, strict=True))
        case ".timeindex":
            for found in read_time_index(file):
                yield damage(found) or dict(zip(("timestamp", "offset"), found, strict=True))
        case ".txnindex":
            for entry in read_transaction_index(file):
                yield damage(entry) or entry._asdict()
        case ".snapshot":
            snapshot = read_snapshot(file)
            if isinstance(snapshot, Damage):
                yield damage(snapshot)
                return
            for producer in snapshot:
                yield {
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "last_sequence": producer.last_sequence,
                    "last_offset": producer.last_data_offset,
                    "last_timestamp": producer.last_timestamp,
                    "transaction_start": producer.current_txn_first_offset,
                }


def damage(found: object) -> dict[str, Any]:
    if isinstance(found, Damage):
        return {"position": found.position, "error": found.reason}
    return {}


def dumped_log(file: Path, wanted: Wanted) -> Iterator[dict[str, Any]]:
    topic = file.resolve().parent.name.rpartition("-")[0]
    decode = None if wanted.is_raw else decoder(topic)
    for found in read_batches(file):
        if isinstance(found, Damage):
            yield damage(found)
            continue
        if not wanted.has(found.header):
            continue
        document = batch_document(found)
        if not wanted.has_records or not found.is_whole:
            if not wanted.keys:
                yield document
            continue
        try:
            document["records"] = wanted.documents(found, decode)
        except ProtocolError as wrong:
            yield {"position": found.position, "error": str(wrong)}
            continue
        if document["records"] or not wanted.keys:
            yield document


def batch_document(batch: Batch) -> dict[str, Any]:
    header = batch.header
    flags = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "append-time": header.timestamp_type.name == "LOG_APPEND_TIME",
        "delete-horizon": header.has_delete_horizon,
    }
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.records_count,
        "position": batch.position,
        "size": header.size,
        "max_timestamp": header.max_timestamp,
        "compression": header.compression.name.lower(),
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "valid": batch.is_whole,
        "flags": [name for name, is_set in flags.items() if is_set],
    }


def record_document(header: BatchHeader, record: Record) -> dict[str, Any]:
    if not header.is_control:
        return as_document(record)
    kind = decode_control_type(record.key)
    known = {int(each): each.name for each in ControlType}
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "control": known.get(kind, str(kind)),
    }


def write_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


class TextDump:
    """Lines under headings, which are printed anew for each file."""

    def __init__(self, *, is_wide: bool) -> None:
        self._file = ""
        self._is_wide = is_wide

    def write(self, document: dict[str, Any]) -> None:
        file = document.pop("file")
        records = document.pop("records", [])
        if "error" in document:
            click.echo(f"{file}: damaged at {document['position']}: {document['error']}")
            return
        widths = dict(zip((field.name for field in BATCH), WIDTHS, strict=True))
        if file != self._file:
            click.echo(f"{file}" if not self._file else f"\n{file}")
            click.echo(self._line([heading(name) for name in document], list(document), widths))
            self._file = file
        if "max_timestamp" in document:
            document["max_timestamp"] = moment(document["max_timestamp"])
        click.echo(self._line([cell(value) for value in document.values()], list(document), widths))
        for record in records:
            click.echo(f"  | {as_text(record)}")

    def _line(self, cells: list[str], names: list[str], widths: dict[str, int]) -> str:
        sizes = [max(widths.get(name, 12), len(name)) for name in names]
        filled = (each.ljust(size) for each, size in zip(cells, sizes, strict=True))
        return "  ".join(filled).rstrip()
