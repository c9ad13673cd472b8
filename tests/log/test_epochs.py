"""Leader epochs: where each begins and ends, and what of that is on disk when."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.disk import RealDisk
from pyk.log.checkpoints import DamagedCheckpoint
from pyk.log.epochs import FILE_NAME, UNDEFINED, EpochStart, LeaderEpochs

DISK = RealDisk()


def epochs_of(directory: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(DISK, directory)
    epochs.assign_all(EpochStart(*entry) for entry in entries)
    return epochs


def text(directory: Path) -> str:
    return (directory / FILE_NAME).read_text()


def test_an_epoch_is_on_disk_when_it_is_assigned(tmp_path: Path) -> None:
    with pytest.raises(DamagedCheckpoint, match="missing"):
        LeaderEpochs.open(DISK, tmp_path)
    epochs = LeaderEpochs(DISK, tmp_path)
    assert epochs.latest is None
    epochs.assign(0, 0)
    assert text(tmp_path) == "0\n1\n0 0\n"
    epochs.assign(3, 120)
    assert text(tmp_path) == "0\n2\n0 0\n3 120\n"
    assert LeaderEpochs.open(DISK, tmp_path).entries == [(0, 0), (3, 120)]
    assert epochs.latest == (3, 120)


def test_an_epoch_starts_where_it_was_first_assigned(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10))
    (tmp_path / FILE_NAME).unlink()
    epochs.assign(2, 11)
    epochs.assign(2, 10)
    assert epochs.entries == [(2, 10)]
    assert not (tmp_path / FILE_NAME).exists(), "nothing changed, so nothing is written"


@pytest.mark.parametrize(
    ("new", "left"),
    [
        ((4, 30), [(1, 10), (2, 20), (4, 30)]),
        ((4, 20), [(1, 10), (4, 20)]),
        ((4, 15), [(1, 10), (4, 15)]),
        ((2, 15), [(1, 10), (2, 15)]),
        ((1, 40), [(1, 40)]),
        ((0, 5), [(0, 5)]),
    ],
)
def test_a_new_epoch_drops_what_contradicts_it(
    new: tuple[int, int], left: list[tuple[int, int]], tmp_path: Path
) -> None:
    epochs = epochs_of(tmp_path, (1, 10), (2, 20))
    epochs.assign(*new)
    assert epochs.entries == left
    assert LeaderEpochs.open(DISK, tmp_path).entries == left


def test_an_epoch_ends_where_the_next_one_starts(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(2, log_end_offset=35) == (2, 20)
    assert epochs.end_offset_for(4, log_end_offset=35) == (4, 30)


def test_the_latest_epoch_ends_with_the_log(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (2, 10)).end_offset_for(2, log_end_offset=35) == (2, 35)


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(3, log_end_offset=35) == (2, 20)
    assert epochs.end_offset_for(6, log_end_offset=35) == (4, 30)


def test_an_epoch_that_is_no_longer_in_the_log_ends_where_the_log_starts(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (2, 10)).end_offset_for(1, log_end_offset=35) == (1, 10)


def test_an_epoch_of_the_future_is_undefined(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (2, 10)).end_offset_for(3, log_end_offset=35) == UNDEFINED
    assert epochs_of(tmp_path).end_offset_for(0, log_end_offset=35) == UNDEFINED == (-1, -1)


def test_an_undefined_epoch_is_undefined(tmp_path: Path) -> None:
    assert epochs_of(tmp_path, (0, 10)).end_offset_for(-1, log_end_offset=35) == UNDEFINED


def test_every_offset_after_the_first_epoch_has_one(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 99)] == [None, 2, 2, 4, 4]


def test_truncating_the_end_is_on_disk_at_once(tmp_path: Path) -> None:
    # Or else: crash after batches of epoch 2 were appended beyond 20, which assigns nothing.
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    epochs.truncate_from_end(21)
    assert epochs.entries == [(2, 10), (4, 20)]
    epochs.truncate_from_end(20)
    assert epochs.entries == [(2, 10)] == LeaderEpochs.open(DISK, tmp_path).entries


def test_truncating_the_start_moves_the_epoch_that_is_there(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20), (7, 30))
    epochs.truncate_from_start(5)
    assert epochs.entries == [(2, 10), (4, 20), (7, 30)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [(4, 25), (7, 30)]
    epochs.truncate_from_start(30)
    assert epochs.entries == [(7, 30)]


def test_truncating_the_start_is_written_by_flush(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 10), (4, 20))
    epochs.truncate_from_start(25)
    assert LeaderEpochs.open(DISK, tmp_path).entries == [(2, 10), (4, 20)]
    epochs.flush()
    assert LeaderEpochs.open(DISK, tmp_path).entries == [(4, 25)]
    (tmp_path / FILE_NAME).unlink()
    epochs.flush()
    assert not (tmp_path / FILE_NAME).exists(), "it was written already"


@pytest.mark.parametrize(
    "lines", ["1 5\n1 6\n", "1 5\n2 5\n", "2 5\n1 6\n", "1 5\n2 4\n", "1 5 6\n1\n", "-1 5\n2 6\n"]
)
def test_epochs_out_of_order_are_damage(lines: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("0\n2\n" + lines)
    with pytest.raises(DamagedCheckpoint, match=FILE_NAME):
        LeaderEpochs.open(DISK, tmp_path)


def test_what_was_damaged_is_assigned_anew(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(DamagedCheckpoint, match="not text"):
        LeaderEpochs.open(DISK, tmp_path)
    epochs_of(tmp_path, (1, 0), (1, 8), (2, 9), (2, 12))
    assert LeaderEpochs.open(DISK, tmp_path).entries == [(1, 0), (2, 9)]


@given(st.binary(max_size=60) | st.text("0129 \n-", max_size=20).map(str.encode))
def test_any_bytes_are_read_or_damaged(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, FILE_NAME).write_bytes(data)
        with contextlib.suppress(DamagedCheckpoint):
            LeaderEpochs.open(DISK, Path(directory))


class Batches:
    """A log that has nothing but the epoch of each of its offsets, from `start` on."""

    def __init__(self) -> None:
        self.start = 0
        self.epochs: list[int] = []

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def append(self, epoch: int, count: int) -> None:
        self.epochs += [epoch] * count

    def truncate(self, offset: int) -> None:
        del self.epochs[max(offset - self.start, 0) :]

    def delete_before(self, offset: int) -> None:
        del self.epochs[: offset - self.start]
        self.start = offset

    def starts(self) -> list[tuple[int, int]]:
        first = {epoch: self.end - i for i, epoch in enumerate(reversed(self.epochs), 1)}
        return sorted(first.items())

    def end_of(self, epoch: int) -> tuple[int, int]:
        if epoch > max(self.epochs, default=-1):
            return UNDEFINED
        before = [e for e in self.epochs if e <= epoch]
        return (before[-1] if before else epoch, self.start + len(before))


@given(st.lists(st.tuples(st.sampled_from("aaabte"), st.integers(1, 4), st.integers(0, 99))))
def test_the_epochs_are_those_of_the_batches(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        epochs = LeaderEpochs(DISK, Path(directory))
        log = Batches()
        for step, size, place in steps:
            offset = log.start + place % (len(log.epochs) + 1)
            match step:
                case "a" | "b":
                    epoch = max(log.epochs, default=0) + (step == "b") * size
                    epochs.assign(epoch, log.end)
                    log.append(epoch, size)
                case "t":
                    log.truncate(offset)
                    epochs.truncate_from_end(offset)
                case "e" if offset < log.end:
                    log.delete_before(offset)
                    epochs.truncate_from_start(offset)
            assert epochs.entries == log.starts()
            for asked in range(max(log.epochs, default=0) + 2):
                assert epochs.end_offset_for(asked, log.end) == log.end_of(asked)
            for at in range(log.start, log.end):
                assert epochs.epoch_for(at) == log.epochs[at - log.start]

            if not Path(directory, FILE_NAME).exists():
                continue
            reopened = LeaderEpochs.open(DISK, Path(directory))
            reopened.truncate_from_end(log.end)
            reopened.truncate_from_start(log.start)
            assert reopened.entries == log.starts(), "a crash loses nothing"
