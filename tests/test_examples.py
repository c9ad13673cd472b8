"""`make test` runs the same examples of Hypothesis each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEST = """
import pytest
from hypothesis import given, settings, strategies as st

seen = []

@given(st.integers(), st.binary())
def test_something(number, data):
    seen.append((number, data))

def test_print():
    print("seen:", hash(tuple(seen)), len(seen))
"""


def examples(directory: Path, *options: str, first: str = "") -> str:
    """Those of a test that runs after something else."""
    directory.mkdir()
    (directory / "test_it.py").write_text(first + TEST)
    (directory / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options]
    environment = {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, str(directory)], cwd=directory, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    return next(line for line in done.stdout.splitlines() if "seen:" in line).partition("seen:")[2]


def test_examples_are_the_same_whatever_was_imported_before(tmp_path: Path) -> None:
    plain = examples(tmp_path / "plain")
    after = examples(tmp_path / "after", first="import pyk.log.log, pyk.coordinator.groups\n")
    assert plain == after


def test_a_search_makes_others(tmp_path: Path) -> None:
    one, other = (
        examples(tmp_path / seed, "--hypothesis-profile=search", f"--hypothesis-seed={seed}")
        for seed in ("1", "2")
    )
    assert one != other
