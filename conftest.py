"""What all tests need."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from pyk.testing.run import INSTRUMENTS
from pyk.testing.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence
    from pathlib import Path

    from trio.abc import Clock, Instrument

WATCHDOG = Watchdog()
LOOP_LIMIT = 0.1
"""Seconds of processor time that a task of a broker may take in one step. A user is promised half
of it: the rest is for machines that are slow, or have other work for the same core."""


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
    WATCHDOG.start()
    INSTRUMENTS.append(WATCHDOG.instrument)


def pytest_unconfigure() -> None:
    INSTRUMENTS.remove(WATCHDOG.instrument)
    WATCHDOG.stop()


def run_watched(
    run: Callable[..., Awaitable[object]],
    *,
    clock: Clock | None = None,
    instruments: Sequence[Instrument] = (),
) -> object:
    watching = [*instruments, WATCHDOG.instrument()]
    return trio.run(run, clock=clock, instruments=watching)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test in which a broker's loop was held."""
    WATCHDOG.take()
    result = yield
    marker = pyfuncitem.get_closest_marker("loop_limit")
    limit = LOOP_LIMIT if marker is None else marker.args[0]
    held = [hold for hold in WATCHDOG.take() if hold.seconds > limit]
    if held:
        pytest.fail("\n".join(map(str, held)), pytrace=False)
    return result


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
    for item in items:
        if item.get_closest_marker("trio"):
            item.add_marker(pytest.mark.trio(run=run_watched), append=False)
