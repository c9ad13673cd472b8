"""A broker appends, deletes and compacts between planning and reading."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.spark.logs import DataLost
from pyk.spark.plan import plan
from pyk.wire.batch import iterate_batches
from pyk.wire.records import read_records
from tests.spark.stored import (
    NOW,
    Writer,
    offsets,
    options,
    read,
    read_one,
    segments,
)


def test_what_is_appended_after_planning_is_not_read(writer: Writer) -> None:
    wanted = options(writer.root, minPartitions="9")
    splits = plan(wanted)
    for _ in range(30):
        writer.put()
    writer.close()
    found = [record for split in splits for record in read_one(split, wanted)]
    assert offsets(found) == list(range(300))


def test_segments_that_were_deleted_meanwhile_are_told(writer: Writer) -> None:
    wanted = options(writer.root, minPartitions="9")
    splits = plan(wanted)
    kept = int(segments(writer)[4].stem)
    writer.log.advance_start(kept)
    writer.log.retire(NOW)
    assert segments(writer)[0].stem >= f"{kept:020}"
    with pytest.raises(DataLost, match="t-0 has lost its offsets from 0 to before"):
        read_one(splits[0], wanted)
    reports: list[str] = []
    lenient = replace(wanted, fails_on_data_loss=False)
    found = [row for split in splits for row in read_one(split, lenient, reports=reports)]
    first = int(segments(writer)[0].stem)
    assert offsets(found) == list(range(first, 300))
    assert reports


def test_a_topic_that_is_deleted_meanwhile_is_told(writer: Writer) -> None:
    wanted = options(writer.root)
    (split,) = plan(wanted)
    shutil.rmtree(writer.log.directory)
    with pytest.raises(DataLost, match="t-0 has lost its offsets from 0"):
        read_one(split, wanted)


COMPACTED = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    min_cleanable_dirty_ratio=0.0,
)


def compact(writer: Writer) -> None:
    writer.log.flush()
    compaction = writer.log.begin_compaction(NOW)
    assert compaction is not None
    writer.log.end_compaction(compaction, compaction.run())


@pytest.mark.parametrize("splits", [1, 5, 30])
@pytest.mark.parametrize("round_of_keys", [3, 200])
def test_compaction_between_planning_and_reading_loses_and_repeats_nothing(
    tmp_path: Path, splits: int, round_of_keys: int
) -> None:
    writer = Writer(tmp_path, COMPACTED)
    for _ in range(100):
        writer.put(keys=round_of_keys)
    wanted = options(tmp_path, minPartitions=str(splits))
    planned = plan(wanted)
    before = [path.stat().st_size for path in segments(writer)]
    compact(writer)
    assert [path.stat().st_size for path in segments(writer)] != before
    found = [record for split in planned for record in read_one(split, wanted)]
    assert found == writer.records()
    assert read(wanted) == writer.records(), "and when it is planned again"


@pytest.mark.parametrize("damage", ["fail", "skip"])
def test_a_file_that_has_the_number_of_one_that_is_gone_is_not_read_by_position(
    writer: Writer, damage: str
) -> None:
    """As after two compactions: other batches in another file, with the inode of the first."""
    wanted = options(writer.root, minPartitions="40", damage=damage)
    splits = plan(wanted)
    path = segments(writer)[1]
    data = path.read_bytes()
    (_, first), *kept = iterate_batches(data, torn_tail_allowed=False)
    inode = path.stat().st_ino
    path.write_bytes(b"".join(data[at : at + header.size] for at, header in kept))
    assert path.stat().st_ino == inode
    reports: list[str] = []
    found = [row for split in splits for row in read_one(split, wanted, reports=reports)]
    gone = range(first.base_offset, first.next_offset)
    assert offsets(found) == [number for number in range(300) if number not in gone]
    assert reports == []


def test_a_swap_that_is_under_way_counts(tmp_path: Path) -> None:
    writer = Writer(tmp_path, COMPACTED)
    for _ in range(100):
        writer.put(keys=3)
    # Segments are joined by the sizes that they had before.
    compact(writer)
    for _ in range(30):
        writer.put(keys=3)
    shown = offsets(writer.records())
    writer.log.flush()
    compaction = writer.log.begin_compaction(NOW)
    assert compaction is not None
    result = compaction.run()
    assert offsets(read(options(tmp_path))) == shown, "drafts do not count"
    swapped = next(each.bases for each in result.rewritten if len(each.bases) > 2)
    data = (writer.log.directory / f"{swapped[0]:020}.log.cleaned").read_bytes()
    headers = list(iterate_batches(data, torn_tail_allowed=False))
    survivors = [each.offset for at, header in headers for each in read_records(data, at, header)]
    replaced = range(swapped[0], headers[-1][1].next_offset)
    expected = sorted({*survivors, *(n for n in shown if n not in replaced)})
    assert len(expected) < len(shown)
    for draft in writer.log.directory.glob(f"{swapped[0]:020}.*.cleaned"):
        draft.rename(draft.with_suffix(".swap"))
    for gone in (*reversed(swapped[1:]), None):
        for splits in ("1", "30"):
            assert offsets(read(options(tmp_path, minPartitions=splits))) == expected
        if gone is not None:
            writer.log.directory.joinpath(f"{gone:020}.log").unlink()


def test_a_swap_that_ends_while_the_log_is_looked_at_is_no_loss(writer: Writer) -> None:
    wanted = options(writer.root)
    (split,) = plan(wanted)
    last_name = segments(writer)[2]
    with _renaming(last_name, last_name.with_suffix(".log.swap")):
        for _ in range(200):
            assert offsets(read_one(split, wanted)) == list(range(300))


@contextmanager
def _renaming(one: Path, other: Path) -> Iterator[None]:
    """Have a file called the one thing and the other in turns."""
    is_over = threading.Event()

    def rename() -> None:
        while not is_over.wait(0.0005):
            one.rename(other)
            is_over.wait(0.0005)
            other.rename(one)

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
