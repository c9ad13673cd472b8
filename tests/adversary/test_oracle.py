"""The oracle sees each anomaly, and only that."""

from __future__ import annotations

import pytest

from tests.adversary.oracle import Log, Outcome, Transaction, anomalies

A, B, C = b"a", b"b", b"c"
WRITER = "writer"


def log(*committed: bytes, more: tuple[bytes, ...] = (), is_open: bool = False) -> Log:
    everything = [*committed, *more]
    end = len(everything)
    return Log(list(committed), everything, end - 1 if is_open else end, end)


def transaction(
    outcome: Outcome, *sent: tuple[int, bytes], offset: int | None = None
) -> Transaction:
    return Transaction(WRITER, list(sent), offset, outcome)


COMMITTED = transaction(Outcome.COMMITTED, (0, A), (1, B))
ABORTED = transaction(Outcome.ABORTED, (0, A), (1, B))
UNKNOWN = transaction(Outcome.UNKNOWN, (0, A), (1, B))


@pytest.mark.parametrize(
    ("told", "logs", "names"),
    [
        (COMMITTED, {0: log(A), 1: log(B)}, []),
        (COMMITTED, {0: log(A), 1: log()}, ["lost", "torn"]),
        (COMMITTED, {0: log(), 1: log()}, ["lost"]),
        (ABORTED, {0: log(more=(A,)), 1: log(more=(B,))}, []),
        (ABORTED, {0: log(A), 1: log()}, ["aborted read", "torn"]),
        (ABORTED, {0: log(A), 1: log(B)}, ["aborted read"]),
        (UNKNOWN, {0: log(A), 1: log(B)}, []),
        (UNKNOWN, {0: log(), 1: log()}, []),
        (UNKNOWN, {0: log(A), 1: log()}, ["torn"]),
        (COMMITTED, {0: log(A, A), 1: log(B)}, ["duplicate"]),
        (COMMITTED, {0: log(A, more=(A,)), 1: log(B)}, ["duplicate"]),
        (COMMITTED, {0: log(A, C), 1: log(B)}, ["from nowhere"]),
        (COMMITTED, {0: log(A, is_open=True), 1: log(B)}, ["hanging"]),
    ],
)
def test_an_outcome_is_held_against_the_logs(
    told: Transaction, logs: dict[int, Log], names: list[str]
) -> None:
    assert [each.name for each in anomalies([told], logs)] == names


def test_the_order_of_one_producer_counts_and_not_that_of_two() -> None:
    first = transaction(Outcome.COMMITTED, (0, A))
    second = transaction(Outcome.COMMITTED, (0, B))
    [found] = anomalies([first, second], {0: log(B, A)})
    assert found.name == "out of order"
    second.transactional_id = "another"
    assert anomalies([first, second], {0: log(B, A)}) == []


@pytest.mark.parametrize(
    ("outcome", "is_there", "possible"),
    [
        (Outcome.COMMITTED, True, {2}),
        (Outcome.ABORTED, False, {1}),
        (Outcome.UNKNOWN, True, {2}),
        (Outcome.UNKNOWN, False, {1}),
    ],
)
def test_the_offset_is_that_of_the_last_commit(
    outcome: Outcome, is_there: bool, possible: set[int]
) -> None:
    told = [
        transaction(Outcome.COMMITTED, offset=1),
        transaction(outcome, (0, A), offset=2),
    ]
    logs = {0: log(A) if is_there else log(more=(A,))}
    for offset in (-1, 1, 2, 3):
        found = [each.name for each in anomalies(told, logs, {WRITER: offset})]
        assert found == ([] if offset in possible else ["offset"])


def test_without_records_a_commit_that_nobody_heard_of_may_count_or_not() -> None:
    told = [transaction(Outcome.UNKNOWN, offset=1)]
    assert [anomalies(told, {}, {WRITER: offset}) for offset in (-1, 1)] == [[], []]
    assert [each.name for each in anomalies(told, {}, {WRITER: 2})] == ["offset"]
