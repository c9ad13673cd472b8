"""What the README shows is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs(snippet: str) -> None:
    exec(snippet, {})


def test_every_verb_of_the_readme_is_in_the_makefile() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    verbs = set(re.findall(r"`make (\w+)`", README))
    assert len(verbs) > 5
    assert verbs <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
