"""`pyk transaction` with what is not there, or wrong."""

from __future__ import annotations

import pytest

from tests.cli.commands import pyk
from tests.cli.test_transaction import asked, rows


@pytest.fixture(scope="module")
def topic(broker: str) -> str:
    """One of two partitions."""
    pyk("topic", "create", "two", "-p", "2", bootstrap=broker)
    return "two"


@pytest.mark.parametrize(
    "words",
    [
        ("describe", "nobody"),
        ("terminate", "nobody"),
        ("terminate", "nobody", "--execute"),
    ],
)
def test_an_unknown_id_is_one_line_with_a_way_on_and_not_made(
    broker: str, words: tuple[str, ...]
) -> None:
    done = asked(broker, *words)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "pyk: there is no transactional id nobody; pyk transaction list has those that are there "
        "(TRANSACTIONAL_ID_NOT_FOUND)\n"
    )
    assert rows(broker, "list", "-r", "nobody") == []


@pytest.mark.parametrize(
    "words",
    [
        ("producers", "nowhere"),
        ("find-hanging", "-t", "nowhere"),
        ("abort", "nowhere", "-p", "0", "-o", "0"),
    ],
)
def test_an_unknown_topic_is_one_line(broker: str, words: tuple[str, ...]) -> None:
    done = asked(broker, *words)
    assert (done.code, done.out) == (1, "")
    assert done.err == "pyk: there is no topic nowhere (UNKNOWN_TOPIC_OR_PARTITION)\n"


@pytest.mark.parametrize(
    "words", [("producers",), ("find-hanging", "-t"), ("abort", "-o", "0", "--execute")]
)
def test_an_unknown_partition_is_one_line(broker: str, topic: str, words: tuple[str, ...]) -> None:
    done = asked(broker, *words, topic, "-p", "9")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"pyk: {topic} has no partition 9; it has 2 (UNKNOWN_TOPIC_OR_PARTITION)\n"


@pytest.mark.parametrize("verb", ["find-hanging -t", "producers"])
def test_an_unknown_broker_is_one_line(broker: str, topic: str, verb: str) -> None:
    done = asked(broker, *verb.split(), topic, "--broker", "9")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("pyk: there is no broker 9; there are 1 ")


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--state", "sleepy"),
        ("list", "--running-longer-than", "soon"),
        ("list", "--producer-id", "x"),
        ("list", "-r", "("),
        ("producers",),
        ("producers", "t", "-p", "-1"),
        ("find-hanging", "-p", "0"),
        ("find-hanging", "--max-transaction-timeout", "15"),
        ("abort", "t"),
        ("abort", "t", "-p", "0"),
        ("abort", "t", "-p", "0", "-o", "-1"),
        ("terminate",),
    ],
)
def test_wrong_usage_is_one_line_and_2(broker: str, words: tuple[str, ...]) -> None:
    done = asked(broker, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"pyk transaction {words[0]}: ")


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("describe",),
        ("describe", "x"),
        ("producers", "t"),
        ("find-hanging",),
        ("abort", "t", "-p", "0", "-o", "0"),
        ("terminate", "x"),
    ],
)
def test_an_unreachable_broker_is_one_line_and_3(words: tuple[str, ...]) -> None:
    done = pyk("transaction", *words, "-b", "127.0.0.1:1")
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert "pyk doctor -b 127.0.0.1:1" in done.err
