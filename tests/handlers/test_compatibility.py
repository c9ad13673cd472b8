"""The compatibility page is the one that the table gives."""

from __future__ import annotations

from pathlib import Path

from pyk.handlers.compatibility import page

WRITTEN = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_the_page_is_up_to_date() -> None:
    assert page() == WRITTEN.read_text(), "run 'make docs'"
