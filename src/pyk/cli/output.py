"""What commands print: rows of named fields, as columns, JSON or YAML.

The names of fields are a promise: scripts rely on them. `--format help` prints them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import click

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"
Row: TypeAlias = Mapping[str, Value]
Format: TypeAlias = Literal["text", "wide", "json", "yaml"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

FORMATS: Final = ("text", "wide", "json", "yaml", "help")
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class Field(NamedTuple):
    """A column of text, and a member of an object in JSON and YAML."""

    name: str
    about: str
    is_wide: bool = False
    """Whether only `wide` has a column for it. JSON and YAML always have it."""


def format_option(*fields: Field, **nested: Sequence[Field]) -> Callable[[Decorated], Decorated]:
    """`--format`, and what it prints for `help`. `nested` are the fields of lists inside."""

    def explain(ctx: click.Context, _: click.Parameter, value: str) -> str:
        if value == "help":
            for line in _help_lines(fields, nested):
                click.echo(line)
            ctx.exit()
        return value

    return click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="text",
        callback=explain,
        is_eager=True,
        help="How to print it; help lists the fields.  [default: text]",
    )


def show(rows: Sequence[Row], fields: Sequence[Field], format_: Format) -> None:
    if format_ in ("json", "yaml"):
        show_document([_ordered(row, fields) for row in rows], format_)
    else:
        for line in columns(rows, fields, is_wide=format_ == "wide"):
            click.echo(line)


def show_report(rows: Sequence[Row], fields: Sequence[Field], format_: Format) -> None:
    """What became of each. The last field is a message, with a column only if there are any."""
    is_plain = format_ in ("text", "wide") and not any(row[fields[-1].name] for row in rows)
    show(rows, fields[:-1] if is_plain else fields, format_)


def show_document(document: Value, format_: Format) -> None:
    if format_ == "yaml":
        for line in _yaml_lines(document, ""):
            click.echo(line)
    else:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def show_sections(
    documents: Sequence[Row],
    head: Sequence[Field],
    sections: Mapping[str, Sequence[Field]],
    format_: Format,
) -> None:
    """Of each document what it has of the head's fields, and then its sections, which are rows."""
    if format_ in ("json", "yaml"):
        show_document(documents, format_)
        return
    is_wide = format_ == "wide"
    for number, document in enumerate(documents):
        if number:
            click.echo()
        shown = [field for field in head if field.name in document]
        for line in pairs(document, shown, is_wide=is_wide):
            click.echo(line)
        for name, fields in sections.items():
            if name in document:
                click.echo()
                rows = document[name]
                assert isinstance(rows, list)
                for line in columns(rows, fields, is_wide=is_wide):
                    click.echo(line)


def columns(rows: Sequence[Row], fields: Sequence[Field], *, is_wide: bool) -> Iterator[str]:
    """Lines under headings. Nothing is cut off, and the last column is not filled up."""
    shown = [field for field in fields if is_wide or not field.is_wide]
    table = [[heading(field.name) for field in shown]]
    table += [[cell(row.get(field.name)) for field in shown] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def pairs(row: Row, fields: Sequence[Field], *, is_wide: bool) -> Iterator[str]:
    """One row as a line for each of its fields."""
    shown = [field for field in fields if is_wide or not field.is_wide]
    width = max(len(field.name) for field in shown)
    for field in shown:
        yield f"{heading(field.name).ljust(width)}  {cell(row.get(field.name))}".rstrip()


def heading(name: str) -> str:
    return name.replace("_", "-").upper()


def cell(value: Value) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return printable(value) if value else '""'
        case Mapping() if any(isinstance(each, list) for each in value.values()):
            return ";".join(f"{key}:{cell(each)}" for key, each in value.items())
        case Mapping():
            return ",".join(f"{key}={cell(each)}" for key, each in value.items()) or "-"
        case Sequence():
            return ",".join(map(cell, value)) or "-"
    return str(value)


def printable(text: str) -> str:
    """The text without anything that a terminal would take for a command."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _ordered(row: Row, fields: Iterable[Field]) -> Row:
    return {field.name: row.get(field.name) for field in fields}


def _help_lines(fields: Sequence[Field], nested: Mapping[str, Sequence[Field]]) -> Iterator[str]:
    rows = [(field.name, field) for field in fields]
    rows += [(f"{of}[].{each.name}", each) for of, inner in nested.items() for each in inner]
    width = max(len(name) for name, _ in rows)
    for name, field in rows:
        yield f"{name.ljust(width)}  {field.about}{'  (wide)' if field.is_wide else ''}"


def _yaml_lines(value: Value, indent: str) -> Iterator[str]:
    match value:
        case Mapping() if value:
            for key, each in value.items():
                yield from _yaml_member(f"{indent}{_yaml_scalar(key)}:", each, indent + "  ")
        case str():
            yield indent + _yaml_scalar(value)
        case Sequence() if value:
            for each in value:
                first, *rest = _yaml_lines(each, indent + "  ")
                yield f"{indent}- {first[len(indent) + 2 :]}"
                yield from rest
        case _:
            yield indent + _yaml_scalar(value)


def _yaml_member(head: str, value: Value, indent: str) -> Iterator[str]:
    if isinstance(value, list | tuple) and all(isinstance(each, int) for each in value):
        yield f"{head} [{', '.join(map(_yaml_scalar, value))}]"
    elif value and isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        yield head
        yield from _yaml_lines(value, indent)
    else:
        yield f"{head} {_yaml_scalar(value)}"


def _yaml_scalar(value: Value) -> str:
    # JSON's scalars are YAML's, and its quotes are always right.
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
