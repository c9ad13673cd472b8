"""How far a redrive is, as it is kept and read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.client.redrive_progress import Progress, Range, Sending, parse_progress
from pyk.errors import ErrorCode, KafkaError

OFFSETS = st.integers(0, 30)
SENDING = Sending(3, 7, 1, 100, 4711, 0, 12)


def read_again(progress: Progress) -> Progress:
    return parse_progress(progress.position, progress.metadata)


def test_what_is_sent_from_the_position_on_moves_it() -> None:
    assert Progress(5).sent(5, 9) == Progress(9)
    assert Progress(5).sent(0, 9) == Progress(9)
    assert Progress(9).sent(0, 5) == Progress(9)


def test_a_range_after_the_position_is_remembered_until_the_position_comes_to_it() -> None:
    ranged = Progress(0).sent(10, 20)
    assert ranged == Progress(0, (Range(10, 20),))
    assert ranged.sent(20, 25) == Progress(0, (Range(10, 25),))
    assert ranged.sent(0, 10) == Progress(20)


def test_what_is_about_to_be_sent_is_over_when_it_is() -> None:
    about = Progress(3).about(SENDING)
    assert read_again(about) == about
    assert about.sent(3, 7) == Progress(7)
    assert Progress(3).metadata == ""


@given(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=12))
def test_nothing_is_forgotten_and_nothing_made_up(ranges: list[tuple[int, int]]) -> None:
    progress, sent = Progress(), set[int]()
    for base, end in ranges:
        progress = read_again(progress.sent(base, max(base, end)))
        sent |= set(range(base, end))
    assert {offset for offset in range(31) if progress.has(offset)} == sent


def test_more_ranges_than_can_be_kept_are_refused() -> None:
    progress = Progress(0, tuple(Range(n, n + 1) for n in range(2, 2000, 2)))
    with pytest.raises(KafkaError) as refused:
        _ = progress.metadata
    assert refused.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("metadata", ["mine", "[]", '{"done": 1}', '{"sending": {"base": 1}}'])
def test_what_somebody_else_has_committed_is_not_taken_for_ours(metadata: str) -> None:
    with pytest.raises(KafkaError, match="cannot be read"):
        parse_progress(0, metadata)
