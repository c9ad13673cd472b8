"""State batches against a dictionary that has an entry for every single offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pyk.coordinator.share_state.batches import StateBatch, StateBatches

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

batches = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, 60),
    st.integers(-1, 20),
    st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    st.integers(0, 3),
)
steps = st.one_of(batches, st.integers(-1, 80))


def combined(*added: StateBatch, start_offset: int = -1) -> list[StateBatch]:
    return list(StateBatches(added, start_offset))


def test_batches_are_kept_in_order() -> None:
    assert combined(StateBatch(10, 19, 2, 1), StateBatch(0, 4, 0, 1)) == [
        StateBatch(0, 4, 0, 1),
        StateBatch(10, 19, 2, 1),
    ]


def test_batches_that_touch_and_say_the_same_are_joined() -> None:
    left, right = StateBatch(0, 4, 2, 1), StateBatch(10, 19, 2, 1)
    assert combined(left, right, StateBatch(5, 9, 2, 1)) == [StateBatch(0, 19, 2, 1)]


def test_batches_that_touch_and_do_not_say_the_same_stay_apart() -> None:
    first, second, third = StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 1), StateBatch(10, 19, 0, 2)
    assert combined(second, third, first) == [first, second, third]


def test_more_deliveries_count_for_more_than_any_state() -> None:
    old, new = StateBatch(0, 9, ARCHIVED, 1), StateBatch(5, 14, AVAILABLE, 2)
    wanted = [StateBatch(0, 4, ARCHIVED, 1), StateBatch(5, 14, AVAILABLE, 2)]
    assert combined(old, new) == combined(new, old) == wanted


def test_of_as_many_deliveries_the_later_state_counts() -> None:
    inside, around = StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(0, 14, AVAILABLE, 1)
    wanted = [StateBatch(0, 4, AVAILABLE, 1), inside, StateBatch(10, 14, AVAILABLE, 1)]
    assert combined(inside, around) == combined(around, inside) == wanted


def test_a_batch_that_covers_many_replaces_those_that_know_less() -> None:
    many = [StateBatch(10 * n, 10 * n + 4, AVAILABLE, n % 2 + 1) for n in range(4)]
    assert combined(*many, StateBatch(2, 33, ACKNOWLEDGED, 1)) == [
        StateBatch(0, 1, AVAILABLE, 1),
        StateBatch(2, 9, ACKNOWLEDGED, 1),
        StateBatch(10, 14, AVAILABLE, 2),
        StateBatch(15, 29, ACKNOWLEDGED, 1),
        StateBatch(30, 34, AVAILABLE, 2),
    ]


def test_nothing_is_kept_before_the_start() -> None:
    kept = [StateBatch(7, 9, 2, 1), StateBatch(12, 14, 0, 1)]
    added = StateBatch(0, 4, 0, 1), StateBatch(5, 9, 2, 1), StateBatch(12, 14, 0, 1)
    assert combined(*added, start_offset=7) == kept
    assert combined(*added, start_offset=15) == []


def test_a_batch_of_nothing_says_nothing() -> None:
    assert combined(StateBatch(5, 4, 2, 1)) == []


def test_a_copy_is_on_its_own() -> None:
    original = StateBatches([StateBatch(0, 4, 2, 1)])
    original.copy().add([StateBatch(5, 9, 0, 1)])
    assert list(original) == [StateBatch(0, 4, 2, 1)]


@given(st.lists(steps, max_size=30))
def test_they_are_what_a_dictionary_of_offsets_would_be(steps: list[StateBatch | int]) -> None:
    kept, model = StateBatches(), dict[int, tuple[int, int]]()
    for step in steps:
        if isinstance(step, StateBatch):
            kept.add([step])
            for offset in range(step.first_offset, step.last_offset + 1):
                model[offset] = max(model.get(offset, step.rank), step.rank)
        else:
            kept.forget_before(step)
            model = {offset: rank for offset, rank in model.items() if offset >= step}
        assert offsets_of(kept) == model
        check_shape(list(kept))


@given(st.lists(batches, max_size=12))
def test_neither_order_nor_repetition_matters(added: list[StateBatch]) -> None:
    once = combined(*added)
    assert combined(*reversed(added), *added) == once == combined(*once)


def offsets_of(batches: StateBatches) -> dict[int, tuple[int, int]]:
    return {
        offset: batch.rank
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def check_shape(batches: list[StateBatch]) -> None:
    for before, after in pairwise(batches):
        assert before.last_offset < after.first_offset
        touches = before.last_offset + 1 == after.first_offset
        assert not (touches and before.rank == after.rank)


def test_very_many_small_changes_of_a_long_list_are_quick_and_leave_nothing_behind() -> None:
    """A million records are delivered twice, in small pieces, two thousand in flight."""
    kept, window = StateBatches(), 2000
    longest = 0
    for offset in range(0, 1_000_000, 50):
        kept.add([StateBatch(offset + n, offset + n, AVAILABLE, 1) for n in range(0, 50, 10)])
        kept.add([StateBatch(offset, offset + 49, ACKNOWLEDGED, 2)])
        kept.forget_before(offset - window)
        longest = max(longest, len(kept))
    assert longest <= window
    assert len(kept) == 1
