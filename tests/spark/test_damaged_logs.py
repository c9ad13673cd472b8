"""What is torn is not there yet, and what is damaged is told with its place, or skipped."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyk.log.stored_log import LogDamaged
from pyk.wire.batch import iterate_batches
from pyk.wire.records import Record, build_batch
from tests.spark.stored import (
    NOW,
    Writer,
    damage,
    offsets,
    options,
    read,
    segments,
)


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\0" * 3, b"half"])
def test_a_torn_tail_is_not_there_yet(writer: Writer, tail: bytes) -> None:
    last = segments(writer)[-1]
    if tail == b"half":
        batch = build_batch([Record(300, NOW, None, b"x" * 100)], base_offset=300)
        tail = batch[: len(batch) // 2]
    with last.open("ab") as file:
        file.write(tail)
    assert offsets(read(options(writer.root))) == list(range(300))


def flip_a_record(path: Path, position: int) -> None:
    damage(path, position + 80, bytes([path.read_bytes()[position + 80] ^ 1]))


def break_the_length(path: Path, position: int) -> None:
    damage(path, position + 8, struct.pack(">i", 10**6))


def break_the_magic(path: Path, position: int) -> None:
    damage(path, position + 16, b"\x09")


def move_the_offset(path: Path, position: int) -> None:
    damage(path, position, struct.pack(">q", 2**40))


def zero_it(path: Path, position: int) -> None:
    damage(path, position, bytes(100))


@pytest.mark.parametrize("splits", [1, 9])
@pytest.mark.parametrize(
    "harm", [flip_a_record, break_the_length, break_the_magic, move_the_offset, zero_it]
)
def test_damage_fails_with_its_place_or_is_skipped_and_told(
    tmp_path: Path, splits: int, harm: Callable[[Path, int], None]
) -> None:
    writer = Writer(tmp_path)
    for _ in range(100):
        writer.put()
    writer.close()
    path = segments(writer)[2]
    data = path.read_bytes()
    position, header = list(iterate_batches(data, torn_tail_allowed=False))[3]
    harm(path, position)
    wanted = options(tmp_path, minPartitions=str(splits))
    with pytest.raises(LogDamaged, match=f"{path} is damaged at {position}: "):
        read(wanted)
    reports: list[str] = []
    found = offsets(read(replace(wanted, skips_damage=True), reports=reports))
    lost = sorted(set(range(300)) - set(found))
    assert len(found) == len(set(found))
    assert set(range(header.base_offset, header.next_offset)) <= set(lost)
    assert len(lost) <= 12, "the next batch that the index knows is not far"
    assert f"{path} is damaged at {position}: " in reports[0]
    assert "bytes are left out" in reports[0]


def test_damage_at_the_end_of_the_log_is_no_torn_tail(writer: Writer) -> None:
    last = segments(writer)[-1]
    end = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"\x07" * 200)
    with pytest.raises(LogDamaged, match=f"{last} is damaged at {end}: unknown magic 7"):
        read(options(writer.root))
    reports: list[str] = []
    assert offsets(read(options(writer.root, damage="skip"), reports=reports)) == list(range(300))
    assert [f"damaged at {end}" in each for each in reports] == [True]
