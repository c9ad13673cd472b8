"""Options that commands share: which cluster, and with which settings."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Concatenate, ParamSpec

import click

from pyk.client.cluster import Cluster
from pyk.client.settings import ClientSettings, read_settings
from pyk.errors import KafkaError

DEFAULT_BOOTSTRAP = "localhost:9092"
BOOTSTRAP_VARIABLE = "PYK_BOOTSTRAP_SERVER"
COMPLETION_TIMEOUT = 0.5

P = ParamSpec("P")


def with_cluster(command: Callable[Concatenate[Cluster, P], None]) -> Callable[..., None]:
    """Give a command the cluster that its options name. Nothing is connected yet."""

    @with_settings
    @functools.wraps(command)
    def wrapped(settings: ClientSettings, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with Cluster(settings) as cluster:
            command(cluster, *args, **kwargs)

    return wrapped


def with_settings(command: Callable[Concatenate[ClientSettings, P], None]) -> Callable[..., None]:
    @click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT,...",
        help=f"Brokers to begin with.  [default: ${BOOTSTRAP_VARIABLE}, or {DEFAULT_BOOTSTRAP}]",
    )
    @click.option(
        "-X", "pairs", multiple=True, metavar="KEY=VALUE", help="Any of Kafka's client settings."
    )
    @click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A properties file with client settings.",
    )
    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        bootstrap, pairs = kwargs.pop("bootstrap"), kwargs.pop("pairs")
        path = kwargs.pop("command_config")
        assert isinstance(bootstrap, str)
        assert isinstance(pairs, tuple)
        assert path is None or isinstance(path, Path)
        command(gather_settings(bootstrap, pairs, path), *args, **kwargs)

    return wrapped


def gather_settings(bootstrap: str, pairs: Iterable[str], path: Path | None) -> ClientSettings:
    """The file, and -X over it. What is wrong with either is wrong usage."""
    properties = {}
    try:
        if path is not None:
            from pyk.config.properties import parse_properties

            properties.update(parse_properties(path.read_text("latin-1")))
        properties.update(parse_pairs(pairs))
        return read_settings(bootstrap, properties)
    except KafkaError as wrong:
        raise click.UsageError(str(wrong)) from wrong


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """`key=value`, each. Raise UsageError."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{pair!r} is not of the form key=value")
        found[key.strip()] = value.strip()
    return found


def complete_topics(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _completed(
        ctx, incomplete, lambda cluster: [each.name or "" for each in cluster.metadata().topics]
    )


def complete_groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from pyk.client.groups import list_groups

    return _completed(
        ctx, incomplete, lambda cluster: [each.group_id for each in list_groups(cluster)]
    )


def complete_queues(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from pyk.client.share_groups import list_share_groups

    return _completed(
        ctx, incomplete, lambda cluster: [each.group_id for each in list_share_groups(cluster)]
    )


def complete_transactions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from pyk.client.transactions import list_transactions

    return _completed(
        ctx,
        incomplete,
        lambda cluster: [each.transactional_id for each in list_transactions(cluster)],
    )


def _completed(
    ctx: click.Context, incomplete: str, find: Callable[[Cluster], list[str]]
) -> list[str]:
    """The names that begin so, if the broker is quick to say."""
    bootstrap = ctx.params.get("bootstrap") or os.environ.get(BOOTSTRAP_VARIABLE)
    try:
        given = read_settings(bootstrap or DEFAULT_BOOTSTRAP, {})
        quick = ClientSettings(
            bootstrap=given.bootstrap,
            connect_timeout=COMPLETION_TIMEOUT,
            request_timeout=COMPLETION_TIMEOUT,
            patience=COMPLETION_TIMEOUT,
        )
        with Cluster(quick) as cluster:
            found = find(cluster)
    except Exception:
        # There is nobody to tell: the user has not even pressed return yet.
        return []
    return sorted(name for name in found if name.startswith(incomplete))


topics_option = click.option(
    "-t",
    "--topics",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="Only this topic, or these partitions of it; may be given more than once.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool, is_needed: bool) -> None:
    """Ask on a terminal. Elsewhere nobody can answer: what needs an answer is refused."""
    if yes:
        return
    if sys.stdin.isatty():
        if not click.confirm(question, err=True):
            raise click.ClickException("nothing was deleted")
    elif is_needed:
        raise click.UsageError(f"{question} Say --yes.")


def chosen(
    names: Iterable[str], regex: str | None, known: Callable[[], Iterable[str]]
) -> list[str]:
    """Those that are named, and of those that are known the ones that match; all, if neither names
    nor an expression are given."""
    wanted = dict.fromkeys(names)
    if regex is not None or not wanted:
        shape = pattern(regex)
        wanted |= dict.fromkeys(each for each in known() if shape.fullmatch(each))
    return list(wanted)


def chosen_to_delete(
    names: Iterable[str], regex: str | None, known: Callable[[], Iterable[str]]
) -> list[str]:
    """As above, but never all because nothing was said."""
    if not names and regex is None:
        raise click.UsageError("say which: names, or -r REGEX")
    return chosen(names, regex, known)


def pattern(regex: str | None) -> re.Pattern[str]:
    try:
        return re.compile(".*" if regex is None else regex)
    except re.error as wrong:
        raise click.UsageError(f"{regex!r} is not a regular expression: {wrong}") from wrong
