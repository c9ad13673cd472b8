"""What `format("pyk")` can be told, and what conditions say about places."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyk.spark.bounds import EVERYTHING, Bounds, Interval, narrowed
from pyk.spark.options import (
    EARLIEST,
    LATEST,
    Assigned,
    InvalidOption,
    Matching,
    Named,
    Offsets,
    ReadOptions,
    Times,
)
from pyk.types import TopicPartition

GIVEN = {"path": "/data", "subscribe": "t"}


def parsed(**more: str) -> ReadOptions:
    return ReadOptions.parse({**GIVEN, **more})


def test_without_more_it_is_all_that_is_committed() -> None:
    assert parsed() == ReadOptions(
        paths=(Path("/data"),),
        selection=Named(frozenset({"t"})),
        starting=Offsets({}, EARLIEST),
        ending=Offsets({}, LATEST),
        is_committed=True,
        min_partitions=1,
        has_headers=False,
        fails_on_data_loss=True,
        skips_damage=False,
        pushes_down=False,
    )


def test_names_have_any_case_as_spark_gives_them() -> None:
    found = ReadOptions.parse(
        {"PATH": "/a, /b", "subscribepattern": "t.*", "includeheaders": "TRUE", "damage": "skip"}
    )
    assert found.paths == (Path("/a"), Path("/b"))
    assert found.selection == Matching("t.*")
    assert found.has_headers
    assert found.skips_damage


def test_several_paths_come_as_spark_gives_a_list() -> None:
    found = ReadOptions.parse({"paths": '["/a,b", "/c"]', "assign": '{"t": [0, 2]}'})
    assert found.paths == (Path("/a,b"), Path("/c"))
    assert found.selection == Assigned(frozenset({TopicPartition("t", 0), TopicPartition("t", 2)}))


def test_a_time_goes_before_times_and_those_before_offsets() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    offsets = {"startingOffsets": '{"t": {"0": 5, "1": -2}}'}
    times = {"startingOffsetsByTimestamp": '{"t": {"0": 7, "1": 8}}'}
    assert parsed(**offsets).starting == Offsets({first: 5, second: EARLIEST})
    assert parsed(**offsets, **times).starting == Times({first: 7, second: 8})
    assert parsed(**offsets, **times, startingTimestamp="9").starting == Times({}, 9)
    assert parsed(endingTimestamp="9").ending == Times({}, 9)
    assert parsed(endingOffsets='{"t": {"0": -1}}').ending == Offsets({first: LATEST})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"startingOffset": "earliest"}, "there is no option startingoffset: path, "),
        ({"startingOffsets": "latest"}, "startingOffsets is earliest, or a JSON object"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets is earliest, or"),
        ({"startingOffsets": '{"t": [1]}'}, "startingOffsets is earliest, or"),
        ({"endingOffsets": "earliest"}, "endingOffsets is latest, or a JSON object"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets is latest, or"),
        ({"endingOffsets": "{"}, "endingOffsets is latest, or"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp is milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": "[]"}, "endingOffsetsByTimestamp is a JSON object"),
        (
            {"isolation": "dirty"},
            "isolation is read_committed or read_uncommitted, and not 'dirty'",
        ),
        ({"minPartitions": "0"}, "minPartitions is a number above 0, and not '0'"),
        ({"includeHeaders": "yes"}, "includeHeaders is false or true, and not 'yes'"),
        ({"failOnDataLoss": ""}, "failOnDataLoss is true or false"),
        ({"pushdown": "1"}, "pushdown is false or true, and not '1'"),
        ({"damage": "repair"}, "damage is fail or skip, and not 'repair'"),
        ({"assign": '{"t": [0]}'}, "one of subscribe, subscribePattern, assign"),
        ({"subscribe": "a,,b"}, "subscribe is topics with commas"),
        ({"path": ""}, "path is a data directory"),
    ],
)
def test_what_is_wrong_is_named_with_what_it_can_be(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parsed(**given)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "/data"}, "one of subscribe, subscribePattern, assign is to be given"),
        ({"subscribe": "t"}, "path is to be a broker's data directory"),
        ({"path": "/data", "subscribePattern": "("}, "subscribePattern is a pattern, and not '('"),
        ({"path": "/data", "assign": "{}"}, "assign is a JSON object of topics"),
        ({"path": "/data", "assign": '{"t": [-1]}'}, "assign is a JSON object of topics"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        ReadOptions.parse(given)
    assert told in str(raised.value)


# As PySpark's: only their names and fields count.


@dataclass(frozen=True)
class _Filter:
    attribute: tuple[str, ...]
    value: Any


class EqualTo(_Filter): ...


class GreaterThan(_Filter): ...


class GreaterThanOrEqual(_Filter): ...


class LessThan(_Filter): ...


class LessThanOrEqual(_Filter): ...


class In(_Filter): ...


@dataclass(frozen=True)
class Not:
    child: _Filter


@dataclass(frozen=True)
class IsNotNull:
    attribute: tuple[str, ...]


def test_conditions_are_joined() -> None:
    found = narrowed(
        EVERYTHING,
        [
            EqualTo(("topic",), "a"),
            In(("topic",), ("a", "b")),
            In(("partition",), (1, 3)),
            LessThan(("partition",), 3),
            GreaterThanOrEqual(("offset",), 10),
            GreaterThan(("offset",), 11),
            LessThanOrEqual(("offset",), 20),
            LessThan(("offset",), 30),
        ],
    )
    assert found.offset == Interval(12, 21)
    partitions = [TopicPartition(topic, n) for topic in "abc" for n in range(5)]
    assert [each for each in partitions if found.has(each)] == [TopicPartition("a", 1)]


@pytest.mark.parametrize("micros", [0, 1, 999, 1000, 1500])
@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (EqualTo, lambda ours, theirs: ours == theirs),
        (LessThan, lambda ours, theirs: ours < theirs),
        (LessThanOrEqual, lambda ours, theirs: ours <= theirs),
        (GreaterThan, lambda ours, theirs: ours > theirs),
        (GreaterThanOrEqual, lambda ours, theirs: ours >= theirs),
    ],
)
def test_no_millisecond_that_a_condition_allows_is_out_of_bounds(
    micros: int, kind: type[_Filter], holds: Any
) -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    milliseconds = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1000
    bounds = narrowed(EVERYTHING, [kind(("timestamp",), moment)])
    for delta in range(-2, 4):
        allowed = holds(delta * 1000, micros)
        is_exact = kind is not EqualTo or not micros % 1000
        if allowed or is_exact:
            assert (milliseconds + delta in bounds.timestamp_ms) == allowed


def test_conditions_on_anything_else_say_nothing() -> None:
    others = [
        Not(EqualTo(("topic",), "a")),
        IsNotNull(("offset",)),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "offset"), 1),
        EqualTo(("offset",), None),
        EqualTo(("timestamp",), "2024"),
        GreaterThan(("offset",), 1.5),
    ]
    assert narrowed(EVERYTHING, others) == Bounds()
