"""Where Spark begins and ends to read: every form that its documentation has."""

from __future__ import annotations

import json

import pytest

from compat_tests.spark.rows import Reader, texts

FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000


@pytest.fixture
def numbered(reader: Reader) -> str:
    """A topic with 0 to 9 in its first partition and 10 to 19 in its second, a second apart."""
    topic = reader.topics.create("numbered", partitions=2)
    for number in range(10):
        for partition in (0, 1):
            reader.topics.write(
                topic, [10 * partition + number], partition=partition, timestamp=time_of(number)
            )
    return topic


def time_of(number: int) -> int:
    return FIRST_MS + number * STEP_MS


def test_a_table_has_all_that_there_is(reader: Reader, numbered: str) -> None:
    assert reader.values(subscribe=numbered) == texts(range(20))


def test_a_table_of_earliest_to_latest_is_the_same(reader: Reader, numbered: str) -> None:
    found = reader.values(subscribe=numbered, startingOffsets="earliest", endingOffsets="latest")
    assert found == texts(range(20))


def test_offsets_bound_a_table_partition_by_partition(reader: Reader, numbered: str) -> None:
    found = reader.values(
        subscribe=numbered,
        startingOffsets=json.dumps({numbered: {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({numbered: {"0": -1, "1": 4}}),
    )
    assert found == texts([*range(3, 10), *range(10, 14)])


def test_one_timestamp_bounds_all_partitions(reader: Reader, numbered: str) -> None:
    found = reader.values(
        subscribe=numbered,
        startingTimestamp=time_of(2) - 1,
        endingTimestamp=time_of(4),
    )
    assert found == texts([2, 3, 12, 13])


def test_timestamps_bound_a_table_partition_by_partition(reader: Reader, numbered: str) -> None:
    found = reader.values(
        subscribe=numbered,
        startingOffsetsByTimestamp=json.dumps({numbered: {"0": time_of(8), "1": time_of(0)}}),
        endingOffsetsByTimestamp=json.dumps({numbered: {"0": time_of(10), "1": time_of(1)}}),
    )
    assert found == texts([8, 9, 10])


def test_a_timestamp_after_everything_is_an_error(reader: Reader, numbered: str) -> None:
    with pytest.raises(Exception, match="No offset matched from request"):
        reader.values(subscribe=numbered, startingTimestamp=time_of(10))


def test_a_timestamp_after_everything_may_mean_the_end(reader: Reader, numbered: str) -> None:
    found = reader.values(
        subscribe=numbered,
        startingTimestamp=time_of(10),
        startingOffsetsByTimestampStrategy="latest",
    )
    assert found == []


def test_a_stream_begins_with_the_earliest(reader: Reader, numbered: str) -> None:
    with reader.begin(reader.stream(subscribe=numbered, startingOffsets="earliest")) as stream:
        assert stream.values() == texts(range(20))
        reader.topics.write(numbered, ["more"])
        assert stream.values() == texts([*range(10), "more", *range(10, 20)])


def test_a_stream_begins_with_what_comes_next(reader: Reader, numbered: str) -> None:
    with reader.begin(reader.stream(subscribe=numbered)) as stream:
        assert stream.values() == []
        reader.topics.write(numbered, ["more"], partition=1)
        assert stream.values() == ["more"]


def test_a_stream_begins_with_offsets(reader: Reader, numbered: str) -> None:
    offsets = json.dumps({numbered: {"0": -1, "1": 7}})
    with reader.begin(reader.stream(subscribe=numbered, startingOffsets=offsets)) as stream:
        assert stream.values() == texts([17, 18, 19])
        reader.topics.write(numbered, ["more"])
        assert stream.values() == texts(["more", 17, 18, 19])


def test_a_stream_begins_with_a_time(reader: Reader, numbered: str) -> None:
    with reader.begin(reader.stream(subscribe=numbered, startingTimestamp=time_of(8))) as stream:
        assert stream.values() == texts([8, 9, 18, 19])


def test_a_stream_begins_with_times_partition_by_partition(reader: Reader, numbered: str) -> None:
    times = json.dumps({numbered: {"0": time_of(9), "1": time_of(10)}})
    stream = reader.stream(
        subscribe=numbered,
        startingOffsetsByTimestamp=times,
        startingOffsetsByTimestampStrategy="latest",
    )
    with reader.begin(stream) as found:
        assert found.values() == texts([9])


def test_positions_are_found_by_a_consumer_too(reader: Reader, numbered: str) -> None:
    """As Spark did it before 3.4, and still does when it is asked to."""
    key = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    reader.spark.conf.set(key, "true")
    try:
        assert reader.values(subscribe=numbered) == texts(range(20))
        found = reader.values(subscribe=numbered, startingTimestamp=time_of(8))
        assert found == texts([8, 9, 18, 19])
    finally:
        reader.spark.conf.unset(key)
