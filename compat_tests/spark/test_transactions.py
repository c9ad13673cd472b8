"""What Spark sees of transactions."""

from __future__ import annotations

from compat_tests.spark.rows import Reader, texts
from compat_tests.spark.topics import WAIT, in_transaction

ALL = {"kafka.isolation.level": "read_uncommitted"}


def test_what_is_aborted_is_not_read_by_those_who_ask_for_what_is_committed(
    reader: Reader,
) -> None:
    topic = reader.topics.create("mixed")
    producer = reader.topics.begin("mixed")
    for number, commits in enumerate((True, False, True, False, True)):
        in_transaction(producer, topic, [number] * 3, commits=commits)
    assert reader.values(subscribe=topic) == texts([0, 0, 0, 2, 2, 2, 4, 4, 4])
    assert len(reader.values(subscribe=topic, **ALL)) == 15


def test_a_stream_ends_though_its_last_records_are_markers(reader: Reader) -> None:
    topic = reader.topics.create("markers", partitions=2)
    producer = reader.topics.begin("markers")
    in_transaction(producer, topic, ["kept"], commits=True)
    for partition in (0, 1):
        in_transaction(producer, topic, ["lost"] * 5, commits=False, partition=partition)
    stream = reader.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    found = reader.begin(stream, availableNow=True)
    assert found.at_its_end() == ["kept"]


def test_an_open_transaction_holds_readers_back_until_it_ends(reader: Reader) -> None:
    topic = reader.topics.create("open")
    reader.topics.write(topic, ["before"])
    producer = reader.topics.begin("open")
    producer.begin_transaction()
    producer.produce(topic, b"inside", partition=0)
    assert producer.flush(WAIT) == 0
    reader.topics.write(topic, ["after"])
    stream = reader.stream(subscribe=topic, startingOffsets="earliest")
    with reader.begin(stream) as found:
        assert found.values() == ["before"]
        assert reader.values(subscribe=topic) == ["before"]
        assert reader.values(subscribe=topic, **ALL) == ["before", "inside", "after"]
        producer.commit_transaction(WAIT)
        assert found.values() == ["before", "inside", "after"]


def test_a_long_run_of_aborted_records_is_passed(reader: Reader) -> None:
    topic = reader.topics.create("aborted")
    producer = reader.topics.begin("aborted")
    for _ in range(5):
        in_transaction(producer, topic, range(1_000), commits=False)
    in_transaction(producer, topic, ["kept"], commits=True)
    assert reader.values(subscribe=topic, minPartitions=4) == ["kept"]
