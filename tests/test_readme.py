"""What the README shows is so."""

from __future__ import annotations

import re

import pytest

from tests.pages import blocks, page

README = page("README.md")


@pytest.mark.parametrize("snippet", blocks(README, "python"))
def test_a_snippet_runs(snippet: str) -> None:
    exec(snippet, {})


def test_every_verb_of_the_readme_is_in_the_makefile() -> None:
    makefile = page("Makefile")
    verbs = set(re.findall(r"`make (\w+)`", README))
    assert len(verbs) > 5
    assert verbs <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
