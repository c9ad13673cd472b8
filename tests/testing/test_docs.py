"""What docs/testing.md shows is so: blocks are run, and the tests in them are run as tests."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "def test_" not in block and "def deliver" not in block]


def recipes() -> dict[str, Callable[..., None]]:
    """The tests on the page, which share its definitions."""
    page: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in BLOCKS:
            if block not in PROGRAMS:
                exec(block, page)
    return {name: found for name, found in page.items() if name.startswith("test_")}


RECIPES = recipes()

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Of kafka-python's, which are not ours to heed."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works(name: str, request: pytest.FixtureRequest) -> None:
    recipe = RECIPES[name]
    wanted = inspect.signature(recipe).parameters
    recipe(**{fixture: request.getfixturevalue(fixture) for fixture in wanted})


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs(program: str) -> None:
    exec(program, {})


def test_there_are_recipes() -> None:
    assert len(RECIPES) > 15
    assert len(PROGRAMS) == 3
