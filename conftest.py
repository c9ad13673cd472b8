"""What all tests need."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

if TYPE_CHECKING:
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    # How long an example takes says more about the machine than about what is tested. The examples
    # depend on nothing but the test: `make search` tries others.
    settings.register_profile("pyk", deadline=None, derandomize=True, database=None)
    settings.register_profile("search", deadline=None, database=None, print_blob=True)
    settings.load_profile("pyk")
    if config.getoption("--hypothesis-profile") is None:
        # Hypothesis also tries constants of whatever modules are imported by then, which depends on
        # the tests that a worker has run before. It has no setting for that.
        HypothesisProvider._local_constants = Constants()  # type: ignore[method-assign, assignment]
    # A shell starts what it runs in the background with interrupts ignored, and children inherit
    # that: commands that tests interrupt would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # When those are gone that are not wanted.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Directories and files of few tests have long ones. They go first, so that no core is left
    with one alone."""
    counts = Counter(item.path for item in items)
    files = Counter(path.parent for path in counts)
    tests = Counter(item.path.parent for item in items)

    def rank(item: pytest.Item) -> tuple[float, Path, int]:
        directory = item.path.parent
        return tests[directory] / files[directory], directory, counts[item.path]

    items.sort(key=rank)
