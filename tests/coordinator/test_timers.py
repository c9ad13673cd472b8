from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyk.coordinator.timers import Timers


def test_nothing_is_due_without_timers() -> None:
    timers: Timers[str] = Timers()
    assert timers.deadline() is None
    assert timers.take_due(1e9) is None


def test_the_earliest_is_due_first_and_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 5)
    timers.set("early", 3)
    assert timers.deadline() == 3
    assert timers.take_due(2.9) is None
    assert timers.take_due(9) == "early"
    assert timers.take_due(9) == "late"
    assert timers.take_due(9) is None


def test_what_is_put_off_is_due_at_its_last_time_only() -> None:
    timers: Timers[str] = Timers()
    for when in (3, 6, 4):
        timers.set("session", when)
    assert timers.deadline() == 4
    assert timers.take_due(10) == "session"
    assert timers.take_due(10) is None


def test_what_is_cancelled_is_never_due() -> None:
    timers: Timers[str] = Timers()
    timers.set("session", 3)
    timers.cancel("session")
    assert timers.deadline() is None
    timers.set("session", 5)
    assert timers.deadline() == 5


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 20)),
            st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
            st.tuples(st.just("take"), st.just(0), st.integers(0, 20)),
        )
    )
)
def test_timers_are_like_a_table_that_is_searched(moves: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    model: dict[int, float] = {}
    for move, key, when in moves:
        if move == "set":
            timers.set(key, when)
            model[key] = when
        elif move == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            taken = timers.take_due(when)
            due = {k for k, at in model.items() if at == min(model.values()) and at <= when}
            assert taken in due if due else taken is None
            if taken is not None:
                del model[taken]
        assert timers.deadline() == min(model.values(), default=None)
        assert len(timers) == len(model)
