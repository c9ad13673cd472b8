"""Fixtures for pytest: brokers that start when a test first asks for one.

    def test_orders_are_sent(pyk_broker, pyk_topic):
        send_order(pyk_broker.bootstrap_servers, pyk_topic)
        assert pyk_broker.records(pyk_topic, 1)[0].value == b"an order"

Nothing of the broker is imported before that. With pytest-xdist each worker has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyk.testing.process import SubprocessBroker
    from pyk.testing.thread import ThreadBroker

_shared = pytest.StashKey["ThreadBroker"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pyk", "a broker for Kafka clients")
    group.addoption(
        "--pyk-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any of Kafka's broker keys for the brokers of pyk's fixtures; over pyk_options",
    )
    parser.addini(
        "pyk_options", "Kafka's broker keys as KEY=VALUE lines", type="linelist", default=[]
    )


@pytest.fixture(scope="session")
def pyk_options(pytestconfig: pytest.Config) -> dict[str, str]:
    """The configuration of all brokers. Override the fixture to compute it."""
    from pyk.config.sources import from_options

    lines: list[str] = pytestconfig.getini("pyk_options")
    return from_options([*lines, *pytestconfig.getoption("pyk_option")])


@pytest.fixture(scope="session")
def pyk_broker(pytestconfig: pytest.Config, pyk_options: dict[str, str]) -> Iterator[ThreadBroker]:
    """A broker in this process, one for all tests. After each of them faults are lifted."""
    from pyk.testing.thread import serve_in_thread

    with serve_in_thread(pyk_options) as broker:
        pytestconfig.stash[_shared] = broker
        yield broker
        del pytestconfig.stash[_shared]


@pytest.fixture
def pyk_topic(pyk_broker: ThreadBroker, request: pytest.FixtureRequest) -> str:
    """The name of a new topic of `pyk_broker`, for this test alone."""
    name = request.node.name
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return pyk_broker.topic(plain[:100])


@pytest.fixture
def pyk_fresh_broker(pyk_options: dict[str, str]) -> Iterator[ThreadBroker]:
    """A broker in this process for one test, with nothing in it and a clock of its own."""
    from pyk.testing.thread import serve_in_thread

    with serve_in_thread(pyk_options) as broker:
        yield broker


@pytest.fixture(scope="session")
def pyk_subprocess(pyk_options: dict[str, str]) -> Iterator[SubprocessBroker]:
    """A broker in a process of its own, one for all tests."""
    from pyk.testing.process import serve_in_subprocess

    with serve_in_subprocess(pyk_options) as broker:
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What one test breaks is not the next one's, and what breaks in a test is that test's."""
    try:
        return (yield)
    finally:
        broker = item.config.stash.get(_shared, None)
        if broker is not None:
            broker.reset()
