"""What docs/testing.md shows is so: blocks are run, and the tests in them are run as tests."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.pages import blocks, page

BLOCKS = blocks(page("docs/testing.md"), "python")
PROGRAMS = [block for block in BLOCKS if "def test_" not in block and "def deliver" not in block]


def recipes() -> dict[str, Callable[..., None]]:
    """The tests on the page, which share its definitions."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in BLOCKS:
            if block not in PROGRAMS:
                exec(block, names)
    return {name: found for name, found in names.items() if name.startswith("test_")}


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
