"""`pyk config`: settings of topics, brokers and groups, and where their values come from."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from pyk.cli.options import with_cluster
from pyk.cli.output import Field, Format, Row, columns, format_option, pairs, show, show_document
from pyk.client.cluster import Cluster
from pyk.client.configs import (
    Change,
    ConfigSource,
    ConfigType,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.describe_configs import DescribeConfigsResourceResult

KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
}
VALUES = (
    Field("key", "the name of the setting"),
    Field("value", "its value; null if it is a secret"),
    Field("source", "where the value is from"),
    Field("type", "what kind of value it is", is_wide=True),
    Field("read_only", "whether it can only change with a restart", is_wide=True),
    Field("sensitive", "whether it is a secret", is_wide=True),
)
CHANGED = (
    Field("resource", "what was changed"),
    Field("key", "the name of the setting"),
    Field("operation", "set, unset, append or subtract"),
    Field("value", "as it was given"),
)
EXPLAINED = (
    Field("key", "the name of the setting"),
    Field("value", "what is in effect; null if it is a secret"),
    Field("source", "where that is from"),
    Field("type", "what kind of value it is"),
    Field("read_only", "whether it can only change with a restart"),
    Field("sensitive", "whether it is a secret"),
)
SYNONYMS = (
    Field("name", "the setting, which may have another name there"),
    Field("value", "what is set there"),
    Field("source", "where it is set; the first is in effect"),
)
DOCUMENTATION = Field("documentation", "what the setting is for")
_CHANGE: Final = re.compile(r"([^=+\-][^=]*?)(\+=|-=|=)(.*)", re.DOTALL)
_OPERATIONS: Final = {
    "=": Operation.SET,
    "+=": Operation.APPEND,
    "-=": Operation.SUBTRACT,
}
_TAGS: Final = re.compile(r"</?[a-zA-Z][^>]*>")

kind_option = click.option("--type", "kind", type=click.Choice(list(KINDS)), help="And --name.")
name_option = click.option("--name", help="Of the topic, broker or group; none: all brokers.")
words_argument = click.argument("words", nargs=-1, metavar="RESOURCE [KEY]...")


@click.group()
def config() -> None:
    """Get, set, unset and explain configuration.

    What has one is named topic/NAME, broker/ID, group/NAME, or broker for the default of all
    brokers; or with --type and --name.
    """


def of_resource(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments that say whose configuration, and of which keys."""
    for decorate in (name_option, kind_option, words_argument):
        command = decorate(command)
    return command


@config.command()
@of_resource
@click.option("-a", "--all", "everything", is_flag=True, help="Defaults, too.")
@format_option(*VALUES)
@with_cluster
def get(
    cluster: Cluster,
    words: tuple[str, ...],
    kind: str | None,
    name: str | None,
    everything: bool,
    format_: Format,
) -> None:
    """Show what is set: pyk config get topic/orders [KEY...]"""
    resource, keys = parse_resource(words, kind, name)
    found = described(cluster, resource, keys)
    rows = [
        row_of(each)
        for each in found
        if everything or keys or each.config_source != ConfigSource.DEFAULT_CONFIG
    ]
    show(rows, VALUES, format_)


@config.command("set")
@of_resource
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be set.")
@format_option(*CHANGED)
@with_cluster
def set_(
    cluster: Cluster,
    words: tuple[str, ...],
    kind: str | None,
    name: str | None,
    dry_run: bool,
    format_: Format,
) -> None:
    """Set values: pyk config set topic/orders retention.ms=1000 cleanup.policy+=compact

    With += a value is added to a list, with -= taken from it.
    """
    resource, texts = parse_resource(words, kind, name)
    if not texts:
        raise click.UsageError("say what to set: key=value")
    changes = []
    for text in texts:
        parsed = _CHANGE.fullmatch(text)
        if parsed is None:
            raise click.UsageError(f"{text!r} is not of the form key=value")
        changes.append(Change(parsed[1].strip(), _OPERATIONS[parsed[2]], parsed[3].strip()))
    change(cluster, resource, changes, format_, dry_run=dry_run)


@config.command()
@of_resource
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be unset.")
@format_option(*CHANGED)
@with_cluster
def unset(
    cluster: Cluster,
    words: tuple[str, ...],
    kind: str | None,
    name: str | None,
    dry_run: bool,
    format_: Format,
) -> None:
    """Let keys have their defaults again: pyk config unset topic/orders retention.ms"""
    resource, keys = parse_resource(words, kind, name)
    if not keys:
        raise click.UsageError("say which keys to unset")
    changes = [Change(key, Operation.UNSET) for key in keys]
    change(cluster, resource, changes, format_, dry_run=dry_run)


@config.command()
@of_resource
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Offline: a server.properties file.",
)
@click.option("-o", "options", multiple=True, metavar="KEY=VALUE", help="Offline: as serve has it.")
@format_option(*EXPLAINED, DOCUMENTATION, synonyms=SYNONYMS)
@with_cluster
def explain(
    cluster: Cluster,
    words: tuple[str, ...],
    kind: str | None,
    name: str | None,
    file: Path | None,
    options: tuple[str, ...],
    format_: Format,
) -> None:
    """Show what a setting is, and where its value comes from.

    \b
    pyk config explain topic/orders retention.ms     asks the broker
    pyk config explain log.retention.ms --config server.properties -o log.retention.hours=1
                                                     what `pyk serve` would make of these
    """
    is_offline = kind is None and not (words and is_resource(words[0]))
    if is_offline:
        if len(words) != 1:
            raise click.UsageError("say which key, and whose: topic/NAME KEY, or a broker's KEY")
        from pyk.cli.explain import explain_static

        document = explain_static(words[0], file, options)
    else:
        if file is not None or options:
            raise click.UsageError("--config and -o are for a broker's keys, offline")
        resource, keys = parse_resource(words, kind, name)
        if len(keys) != 1:
            raise click.UsageError("say which key to explain")
        (found,) = described(cluster, resource, keys)
        document = explained(found)
    if format_ in ("json", "yaml"):
        show_document(document, format_)
    else:
        show_explanation(document)


def is_resource(word: str) -> bool:
    return word.partition("/")[0] in KINDS


def parse_resource(
    words: Sequence[str], kind: str | None, name: str | None
) -> tuple[Resource, tuple[str, ...]]:
    """Whose configuration, and the other words. Raise UsageError."""
    rest = tuple(words)
    if kind is None:
        if not words or not is_resource(words[0]):
            raise click.UsageError("say whose: topic/NAME, broker/ID, broker or group/NAME")
        kind, _, name = words[0].partition("/")
        rest = tuple(words[1:])
    if kind == "broker" and name == "default":
        name = ""
    if kind != "broker" and not name:
        raise click.UsageError(f"a {kind} has a name: {kind}/NAME")
    return Resource(KINDS[kind], name or ""), rest


def described(
    cluster: Cluster, resource: Resource, keys: Sequence[str]
) -> list[DescribeConfigsResourceResult]:
    """Raise KafkaError also for keys that are not there, which brokers leave out."""
    found = describe_configs(cluster, resource, keys or None, is_explained=True)
    missing = sorted(set(keys) - {each.name for each in found})
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{resource} has no setting {', '.join(missing)}"
        )
    return found


def change(
    cluster: Cluster,
    resource: Resource,
    changes: Sequence[Change],
    format_: Format,
    *,
    dry_run: bool,
) -> None:
    alter_configs(cluster, resource, changes, validate_only=dry_run)
    rows: list[Row] = [
        {
            "resource": str(resource),
            "key": each.key,
            "operation": each.operation.name.lower(),
            "value": each.value,
        }
        for each in changes
    ]
    show(rows, CHANGED, format_)


def row_of(found: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "key": found.name,
        "value": found.value,
        "source": ConfigSource(found.config_source).name,
        "type": ConfigType(found.config_type).name,
        "read_only": found.read_only,
        "sensitive": found.is_sensitive,
    }


def explained(found: DescribeConfigsResourceResult) -> dict[str, Any]:
    synonyms = [
        {"name": each.name, "value": each.value, "source": ConfigSource(each.source).name}
        for each in found.synonyms
    ]
    return {**row_of(found), "documentation": found.documentation, "synonyms": synonyms}


def show_explanation(document: dict[str, Any]) -> None:
    for line in pairs(document, EXPLAINED, is_wide=True):
        click.echo(line)
    if document["synonyms"]:
        click.echo()
        for line in columns(document["synonyms"], SYNONYMS, is_wide=True):
            click.echo(line)
    if document["documentation"]:
        click.echo()
        text = _TAGS.sub("", document["documentation"])
        width = min(shutil.get_terminal_size().columns, 100)
        click.echo(textwrap.fill(" ".join(text.split()), width))
