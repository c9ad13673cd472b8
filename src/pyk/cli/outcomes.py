"""What became of the groups and queues that a command was to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import click

from pyk.cli.output import Field, Format, Row, show_report
from pyk.cli.root import REFUSED
from pyk.cli.seeking import Move
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

Advice: TypeAlias = Mapping[ErrorCode, str]
"""What to do about an error, for those of which the broker says no more."""

DELETED: Final = (
    Field("group", "its name"),
    Field("status", "OK, or the error's name"),
    Field("message", "what it means, if it was refused"),
)


def report(
    rows: Sequence[Row],
    fields: Sequence[Field],
    format_: Format,
    errors: Iterable[KafkaError | None],
) -> None:
    """Show them. If there is any error, it is the command's."""
    show_report(rows, fields, format_)
    if any(errors):
        raise click.exceptions.Exit(REFUSED)


def report_deleted(
    results: Mapping[str, KafkaError | None], advice: Advice, format_: Format
) -> None:
    rows: list[Row] = [{"group": name, **outcome(error, advice)} for name, error in results.items()]
    report(rows, DELETED, format_, results.values())


def outcome(error: KafkaError | None, advice: Advice) -> Row:
    return {"status": error.code.name if error else "OK", "message": explained(error, advice)}


def explained(error: KafkaError | None, advice: Advice) -> str | None:
    return None if error is None else error.message or advice.get(error.code)


def refusal(what: str, error: KafkaError, advice: Advice) -> KafkaError:
    """Of all that was asked about `what`."""
    said = f"{what}: {explained(error, advice)}"
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        said += "; what was asked for may have been done"
    return KafkaError(error.code, said)


def moved(
    partition: TopicPartition,
    move: Move,
    error: KafkaError | None,
    advice: Advice,
    *,
    is_done: bool,
) -> Row:
    return {
        **partition._asdict(),
        "before": move.before,
        "after": move.after,
        "status": error.code.name if error else "OK" if is_done else "PLANNED",
        "message": explained(error, advice) or move.note,
    }


def say_nothing_has_changed(what: str, *, is_new: bool) -> None:
    """After a plan that was only shown: `what` is as it was, or is still not there."""
    makes = f" and make the {what}, which is not there yet" if is_new else ""
    click.echo(f"pyk: nothing has been changed; add --execute to do it{makes}", err=True)
