"""The page of configuration keys is the one that the declarations give."""

from __future__ import annotations

from pathlib import Path

from pyk.config.reference import page

WRITTEN = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert WRITTEN.read_text() == page(), "run `make docs`"
