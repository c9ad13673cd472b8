"""What docs/cli.md shows is so."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from pyk.cli import main
from tests.cli.commands import pyk
from tests.pages import blocks, page

PAGE = page("docs/cli.md")
COMMANDS = re.findall(
    r"\bpyk ((?:topic|group|queue|transaction|config|cluster|log|produce|consume|doctor)\b"
    r"[^|<#\n]*)",
    PAGE,
)


@pytest.mark.parametrize("command", [each.strip(" \\") for each in COMMANDS if "`" not in each])
def test_a_command_of_the_page_has_the_options_that_it_shows(command: str) -> None:
    words = shlex.split(command)
    found: click.Command = main
    context = click.Context(main, info_name="pyk")
    while isinstance(found, click.Group) and words:
        inner = found.get_command(context, words.pop(0))
        assert inner is not None, command
        found = inner
    options = {name for each in found.params for name in each.opts}
    used = {word for word in words if re.fullmatch(r"-[a-zA-Z]|--[a-z-]+", word)}
    assert used <= options


def test_the_page_shows_every_command() -> None:
    shown = {command.split()[0] for command in COMMANDS}
    assert shown | {"serve", "completion"} == set(main.list_commands(click.Context(main)))


def test_the_template_that_copies_a_topic_keeps_sizes_and_nulls(broker: str) -> None:
    template = re.search(r"F='([^']*)'", PAGE)
    assert template is not None
    given = b"5 1 -1 k\n6 -1 2 \n\xff\n"
    pyk("produce", "source", "-f", template[1], bootstrap=broker, stdin=given)
    shown = pyk("consume", "source", "-e", "-f", r"%T/%K/%V\n", bootstrap=broker).lines
    assert shown == ["5/1/-1", "6/-1/2"]


@pytest.mark.parametrize("snippet", blocks(PAGE, "python"))
def test_a_snippet_copies_a_topic(broker: str, snippet: str) -> None:
    names: dict[str, object] = {}
    exec(snippet, names)
    pyk("produce", "from", bootstrap=broker, stdin=b"a\nb\n")
    copy = names["copy"]
    assert callable(copy)
    copy(broker, "from", "to")
    assert pyk("consume", "to", "-e", "-f", r"%v\n", bootstrap=broker).lines == ["a", "b"]
