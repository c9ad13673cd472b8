"""Runs of offsets, beside a plain dict."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pyk.sharing.runs import Runs


def test_neighbours_with_the_same_value_are_one_run() -> None:
    runs: Runs[str] = Runs(0)
    runs.put(0, 5, "a")
    runs.put(5, 6, "b")
    runs.put(6, 20, "a")
    assert runs.pieces(2, 8) == [(2, 5, "a"), (5, 6, "b"), (6, 8, "a")]
    runs.put(5, 6, "a")
    assert runs.pieces(0, 100) == [(0, 20, "a")]
    assert runs.at(7) == (0, 20, "a")


def test_a_million_records_that_are_worked_through_one_by_one_stay_small() -> None:
    runs: Runs[str] = Runs(0)
    runs.put(0, 1_000_000, "acquired")
    for offset in range(0, 1_000_000, 1000):
        runs.put(offset, offset + 1000, "done")
        assert len(runs) <= 2
    runs.drop_before(1_000_000)
    assert (len(runs), runs.start, runs.end) == (0, 1_000_000, 1_000_000)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 10), st.sampled_from(["a", "b", "c", None])),
        max_size=30,
    )
)
def test_runs_are_as_the_offsets_one_by_one(steps: list[tuple[int, int, str | None]]) -> None:
    """Without a value offsets are dropped."""
    runs: Runs[str] = Runs(0)
    model: dict[int, str] = {}
    for base, size, value in steps:
        if value is None:
            runs.drop_before(base)
            model = {offset: v for offset, v in model.items() if offset >= base}
        else:
            base = min(max(base, runs.start), runs.end)
            end = base + size if base == runs.end else min(base + size, runs.end)
            runs.put(base, end, value)
            model.update(dict.fromkeys(range(base, end), value))
        pieces = list(runs.walk(runs.start))
        assert {o: v for start, end, v in pieces for o in range(start, end)} == model
        assert all(one[1] == two[0] and one[2] != two[2] for one, two in pairwise(pieces))
        assert runs.pieces(runs.start, runs.end) == pieces
        assert len(runs) == len(pieces)
