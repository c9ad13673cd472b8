"""The transaction index: which aborted transactions a fetch is told, and what is in the file."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.disk import RealDisk
from pyk.log.index import DamagedIndex
from pyk.log.transactions import AbortedTransaction, TransactionIndex

DISK = RealDisk()
NAME = "00000000000000000100.txnindex"
BASE_OFFSET = 100

FIRST = AbortedTransaction(producer_id=7, first_offset=90, last_offset=110, last_stable_offset=105)
SECOND = AbortedTransaction(8, first_offset=105, last_offset=120, last_stable_offset=121)
THIRD = AbortedTransaction(7, first_offset=130, last_offset=140, last_stable_offset=141)


def index_of(directory: Path, *entries: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex(DISK, directory / NAME, BASE_OFFSET)
    for entry in entries:
        index.append(entry)
    return index


def loaded(directory: Path) -> TransactionIndex:
    index = TransactionIndex(DISK, directory / NAME, BASE_OFFSET)
    index.load()
    return index


def test_there_is_no_file_without_an_aborted_transaction(tmp_path: Path) -> None:
    index = loaded(tmp_path)
    index.truncate(0)
    index.clear()
    index.write()
    assert index.collect(0, 1000) == ([], False)
    assert not list(tmp_path.iterdir())


def test_an_entry_is_34_bytes(tmp_path: Path) -> None:
    index_of(tmp_path, FIRST).write()
    numbers = (0, 2), (7, 8), (90, 8), (110, 8), (105, 8)
    data = b"".join(number.to_bytes(size, "big") for number, size in numbers)
    assert (tmp_path / NAME).read_bytes() == data
    assert len(data) == 34


def test_it_is_the_same_after_loading(tmp_path: Path) -> None:
    index_of(tmp_path, FIRST, SECOND).write()
    index = loaded(tmp_path)
    assert index.entries == [FIRST, SECOND]
    index.append(THIRD)
    index.write()
    index.release()
    assert loaded(tmp_path).entries == [FIRST, SECOND, THIRD]


def test_a_fetch_is_told_what_it_may_meet(tmp_path: Path) -> None:
    index = index_of(tmp_path, FIRST, SECOND, THIRD)
    assert index.collect(100, 1000) == ([FIRST, SECOND, THIRD], False)
    assert index.collect(111, 130) == ([SECOND], True), "the third starts where the fetch ends"
    assert index.collect(110, 112) == ([FIRST, SECOND], True)
    assert index.collect(121, 125) == ([], True)
    assert index.collect(141, 150) == ([], False)


def test_the_search_ends_where_everything_was_decided(tmp_path: Path) -> None:
    index = index_of(tmp_path, FIRST, SECOND)
    assert index.collect(100, 105) == ([FIRST], True)
    assert index.collect(100, 106) == ([FIRST, SECOND], True)
    assert index.collect(100, 122) == ([FIRST, SECOND], False), "the next segment may have more"


def test_truncating_forgets_markers_from_there_on(tmp_path: Path) -> None:
    index = index_of(tmp_path, FIRST, SECOND, THIRD)
    index.truncate(121)
    index.write()
    assert index.entries == [FIRST, SECOND] == loaded(tmp_path).entries
    index.truncate(120)
    index.write()
    assert index.entries == [FIRST] == loaded(tmp_path).entries
    index.append(SECOND)
    index.write()
    assert loaded(tmp_path).entries == [FIRST, SECOND]


@pytest.mark.parametrize(
    "entry",
    [
        FIRST._replace(last_offset=99, first_offset=80, last_stable_offset=80),
        FIRST._replace(first_offset=110),
        FIRST._replace(first_offset=-1),
        FIRST._replace(producer_id=-1),
        FIRST._replace(last_stable_offset=112),
        FIRST._replace(last_stable_offset=-1),
    ],
)
def test_an_entry_that_cannot_be_is_damage(entry: AbortedTransaction, tmp_path: Path) -> None:
    data = b"\0\0" + b"".join(number.to_bytes(8, "big", signed=True) for number in entry)
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(DamagedIndex, match=NAME):
        loaded(tmp_path)


def test_a_torn_tail_another_version_and_disorder_are_damage(tmp_path: Path) -> None:
    index_of(tmp_path, FIRST, SECOND).write()
    good = (tmp_path / NAME).read_bytes()
    for bad in (good[:-1], good + b"\0", b"\0\1" + good[2:], good[34:] + good[:34], good[:34] * 2):
        (tmp_path / NAME).write_bytes(bad)
        with pytest.raises(DamagedIndex, match=NAME):
            loaded(tmp_path)


def test_what_was_damaged_is_cleared_and_filled_again(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"?" * 50)
    index = TransactionIndex(DISK, tmp_path / NAME, BASE_OFFSET)
    index.clear()
    index.append(FIRST)
    index.write()
    assert loaded(tmp_path).entries == [FIRST]


@given(st.binary(max_size=102) | st.binary(min_size=32, max_size=32).map(lambda b: b"\0\0" + b))
def test_any_bytes_are_read_or_damaged(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, NAME).write_bytes(data)
        with contextlib.suppress(DamagedIndex):
            loaded(Path(directory))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=25),
    st.integers(100, 140),
    st.integers(1, 40),
)
def test_nothing_aborted_in_the_range_is_left_out(
    steps: list[tuple[int, int, bool]], fetch_offset: int, size: int
) -> None:
    """Transactions of three producers as a log has them, each open until its marker."""
    offset = BASE_OFFSET
    started: dict[int, int] = {}
    every: list[AbortedTransaction] = []
    with tempfile.TemporaryDirectory() as directory:
        index = TransactionIndex(DISK, Path(directory, NAME), BASE_OFFSET)
        for producer_id, count, is_end in steps:
            if is_end and producer_id in started:
                first = started.pop(producer_id)
                stable = min(started.values(), default=offset + 1)
                every.append(AbortedTransaction(producer_id, first, offset, stable))
                index.append(every[-1])
                offset += 1
            else:
                started.setdefault(producer_id, offset)
                offset += count
        end = fetch_offset + size
        met = [t for t in every if t.first_offset < end and t.last_offset >= fetch_offset]
        found, is_complete = index.collect(fetch_offset, end)
        assert found == met
        if is_complete:
            assert all(first >= end for first in started.values()), "one may yet be aborted"
        index.write()
        assert loaded(Path(directory)).entries == every
