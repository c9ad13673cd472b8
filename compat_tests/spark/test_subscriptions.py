"""Which topics and partitions Spark reads."""

from __future__ import annotations

import json

import pytest

from compat_tests.spark.rows import Reader, texts


def test_several_topics_are_read_together(reader: Reader) -> None:
    first, second = reader.topics.create("first"), reader.topics.create("second")
    reader.topics.write(first, range(3))
    reader.topics.write(second, range(3, 5))
    table = reader.table(subscribe=f"{first},{second}")
    rows = {(row.topic, bytes(row.value).decode()) for row in table.collect()}
    assert rows == {(first, text) for text in "012"} | {(second, text) for text in "34"}


def test_a_pattern_is_for_the_topics_that_match_it_all(reader: Reader) -> None:
    names = [reader.topics.create(stem) for stem in ("pattern-a", "pattern-b", "other")]
    for name in names:
        reader.topics.write(name, [name])
    found = reader.values(subscribePattern=f"pattern-(a|b)-{suffix(names[0])}|{names[1]}")
    assert set(found) == set(names[:2])


def suffix(name: str) -> str:
    return name.rpartition("-")[2]


def test_a_pattern_for_everything_leaves_out_what_is_the_brokers_own(reader: Reader) -> None:
    topic = reader.topics.create("mine")
    # So that the broker has topics of its own: offsets of groups, and transactions.
    reader.topics.begin("somebody")
    reader.topics.write(topic, ["mine"])
    found = {row.topic for row in reader.table(subscribePattern=".*").select("topic").collect()}
    assert topic in found
    assert not [name for name in found if name.startswith("__")]


def test_a_stream_by_pattern_finds_topics_that_are_made_later(reader: Reader) -> None:
    stem = reader.topics.create("growing")
    reader.topics.write(stem, ["first"])
    stream = reader.stream(subscribePattern=f"{stem}.*", startingOffsets="earliest")
    with reader.begin(stream) as found:
        assert found.values() == ["first"]
        later = reader.topics.create(f"{stem}-later")
        reader.topics.write(later, ["second"])
        assert sorted(found.values()) == ["first", "second"]


def test_partitions_are_assigned_one_by_one(reader: Reader) -> None:
    topic = reader.topics.create("assigned", partitions=3)
    for partition in range(3):
        reader.topics.write(topic, [partition], partition=partition)
    assert reader.values(assign=json.dumps({topic: [0, 2]})) == texts([0, 2])


def test_an_empty_topic_is_an_empty_table(reader: Reader) -> None:
    assert reader.values(subscribe=reader.topics.create("empty", partitions=3)) == []


def test_a_topic_that_is_not_there_is_an_error(reader: Reader) -> None:
    with pytest.raises(Exception, match="UnknownTopicOrPartition"):
        reader.values(subscribe="nobody-made-this")


def test_two_hundred_partitions_are_read(reader: Reader) -> None:
    topic = reader.topics.create("wide", partitions=200)
    for partition in range(0, 200, 7):
        reader.topics.write(topic, [partition], partition=partition)
    assert reader.values(subscribe=topic) == texts(range(0, 200, 7))
