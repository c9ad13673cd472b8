"""Rows as columns, JSON and YAML."""

from __future__ import annotations

import json

import pytest

from pyk.cli.output import Field, Format, Value, show, show_document

FIELDS = (Field("name", "a name"), Field("on_disk", "a size", is_wide=True), Field("tags", "more"))
ROWS: list[dict[str, Value]] = [
    {"name": "a", "on_disk": 5, "tags": [1, 2]},
    {"name": "longer name", "on_disk": None, "tags": {}},
]
DOCUMENT: Value = [
    {"name": "yes", "count": 3, "ratio": None, "list": [1, 2], "empty": [], "of": {"a.b": "x: y"}},
    {"name": "plain", "nested": [{"deep": [{"er": True}]}]},
]
YAML = """\
- name: "yes"
  count: 3
  ratio: null
  list: [1, 2]
  empty: []
  of:
    a.b: "x: y"
- name: plain
  nested:
    - deep:
        - er: true
"""


@pytest.mark.parametrize(
    ("format_", "shown"),
    [
        ("text", "NAME         TAGS\na            1,2\nlonger name  -\n"),
        (
            "wide",
            "NAME         ON-DISK  TAGS\na            5        1,2\nlonger name  -        -\n",
        ),
    ],
)
def test_columns_are_as_wide_as_they_must_be(
    format_: Format, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(ROWS, FIELDS, format_)
    assert capsys.readouterr().out == shown


def test_json_has_every_field_of_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, FIELDS, "json")
    assert json.loads(capsys.readouterr().out) == ROWS


def test_yaml_quotes_what_it_would_take_for_something_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_document(DOCUMENT, "yaml")
    assert capsys.readouterr().out == YAML


def test_nothing_that_is_printed_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"name": "\x1b[2Jgone\n", "tags": "ä"}], FIELDS, "text")
    assert capsys.readouterr().out.splitlines()[1] == r"\x1b[2Jgone\n  ä"
