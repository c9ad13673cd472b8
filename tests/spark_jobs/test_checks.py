"""What an audit says of what was counted. Spark, which counts, is not needed here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spark_jobs.checks import (
    Extent,
    all_right,
    check_density,
    check_duplicates,
    compare,
    table_of,
    table_of_extents,
)
from spark_jobs.manifest import Manifest, Tally, total

TEN = Extent(partition=0, start=5, end=15, rows=10, offset_sum=sum(range(5, 15)))


def wrong_checks(expected: dict[str, Tally], found: dict[str, Tally]) -> list[str]:
    return [each.check for each in compare("events", expected, found) if not each.is_right]


def test_tallies_add_up_in_any_order() -> None:
    tallies = {"order": Tally(2, 30), "view": Tally(1, 12)}
    assert total(tallies) == Tally(3, 42) == total(dict(reversed(tallies.items())))
    assert total({}) == Tally(0, 0)


def test_a_manifest_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    topics = {"events.raw": {"order": Tally(3, 2**40)}, "events.dead": {}}
    manifest = Manifest(plan={"events": 3}, topics=topics, counts={"late": 1})
    path = tmp_path / "run" / "manifest.json"
    manifest.save(path)
    assert Manifest.load(path) == manifest
    assert [each.name for each in path.parent.iterdir()] == ["manifest.json"]


def test_what_is_as_expected_is_right() -> None:
    tallies = {"order": Tally(2, 30), "view": Tally(1, 12)}
    findings = list(compare("events", tallies, dict(tallies)))
    assert len(findings) == 2
    assert all_right(findings)


def test_a_lost_record_and_a_changed_one_are_wrong_in_their_group_only() -> None:
    expected = {"order": Tally(2, 30), "payment": Tally(2, 40), "view": Tally(1, 12)}
    found = {**expected, "order": Tally(1, 12), "view": Tally(1, 13)}
    assert wrong_checks(expected, found) == ["order", "view"]


def test_a_group_that_is_missing_and_one_that_nobody_expects_are_wrong() -> None:
    assert wrong_checks({"order": Tally(2, 30)}, {"refund": Tally(2, 30)}) == ["order", "refund"]


def test_offsets_that_are_all_there_are_dense() -> None:
    empty = Extent(partition=1, start=7, end=7, rows=0, offset_sum=0)
    assert check_density("events", [TEN, empty], gaps_allowed=False).is_right


def test_a_hole_is_found_and_named_by_its_partition() -> None:
    hole = Extent(partition=3, start=5, end=15, rows=9, offset_sum=sum(range(5, 15)) - 8)
    found = check_density("events", [TEN, hole], gaps_allowed=False)
    assert not found.is_right
    assert "[3]" in found.found
    assert check_density("events", [TEN, hole], gaps_allowed=True).is_right


def test_a_hole_that_another_offset_twice_makes_up_for_is_found() -> None:
    swapped = TEN._replace(offset_sum=TEN.offset_sum - 8 + 9)
    assert not check_density("events", [swapped], gaps_allowed=False).is_right


def test_more_records_than_offsets_are_wrong_even_where_gaps_are_allowed() -> None:
    assert not check_density("events", [TEN._replace(rows=11)], gaps_allowed=True).is_right


def test_duplicates_are_wrong_where_they_are_refused() -> None:
    assert check_duplicates("events", 0, are_refused=True).is_right
    assert not check_duplicates("events", 1, are_refused=True).is_right
    assert check_duplicates("events", 1, are_refused=False).is_right


def test_the_table_of_partitions_has_a_row_for_each() -> None:
    shown = table_of_extents([TEN._replace(checksum=255)]).splitlines()
    assert [line.split() for line in shown][1:] == [["0", "5", "15", "10", "#ff"]]


def test_the_table_marks_what_is_wrong() -> None:
    (right,) = compare("events", {"order": Tally(1000, 10)}, {"order": Tally(1000, 10)})
    shown = table_of([right, replace(right, check="view", is_right=False)]).splitlines()
    assert len(shown) == 3
    assert shown[1].startswith("ok")
    assert "1,000 #a" in shown[1]
    assert shown[2].startswith("WRONG")
