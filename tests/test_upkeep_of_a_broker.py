"""A broker with its defaults keeps its logs in order: nobody has to ask for a flush."""

from __future__ import annotations

import os

import pytest

from pyk.disk import RealDisk
from pyk.log.checkpoints import RECOVERY_POINTS, read_offsets
from pyk.testing import ErrorCode, KafkaError, Record, serve_in_thread
from pyk.types import TopicPartition

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0",
}
VALUE = bytes(300_000)


def test_a_compacted_topic_is_compacted() -> None:
    with serve_in_thread() as broker:
        topic = broker.topic(configs=COMPACTED)
        for _ in range(10):
            broker.produce(topic, Record(key=b"same", value=VALUE))
        broker.clock.advance(60)
        kept = broker.records(topic)
        assert len(kept) < 10
        assert kept[-1].offset == 9


def test_what_is_in_full_segments_needs_no_recovery() -> None:
    with serve_in_thread() as broker:
        topic = broker.topic(configs={"segment.bytes": "1048576"})
        for _ in range(10):
            broker.produce(topic, Record(value=VALUE))
        broker.clock.advance(60)
        points = read_offsets(RealDisk(), broker.data_dir / RECOVERY_POINTS)
        assert points[TopicPartition(topic, 0)] >= 9


def test_full_segments_hold_no_descriptors() -> None:
    with serve_in_thread() as broker:
        topic = broker.topic(configs={"segment.bytes": "1048576"})
        for _ in range(40):
            broker.produce(topic, Record(value=VALUE))
        broker.clock.advance(1)
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        held = [os.readlink(link) for link in links if os.path.exists(link)]
        assert len([path for path in held if f"/{topic}-0/" in path]) < 10
        assert len(list((broker.data_dir / f"{topic}-0").glob("*.log"))) >= 13


def test_a_topic_for_which_there_is_no_space_is_refused_and_nothing_breaks() -> None:
    with serve_in_thread() as broker:
        with broker.faults.fill_disk(), pytest.raises(KafkaError) as refused:
            broker.create_topic("one-too-many")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        broker.create_topic("one-too-many")
        broker.produce("one-too-many", b"v")
        assert len(broker.records("one-too-many")) == 1
