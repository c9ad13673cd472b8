"""A broker with its defaults keeps its logs in order: nobody has to ask for a flush."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pyk.disk import RealDisk
from pyk.log.checkpoints import RECOVERY_POINTS, read_offsets
from pyk.testing import ErrorCode, KafkaError, Record, ThreadBroker, serve_in_thread
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from tests.clients.raw import RawClient

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


FOR_EVER = {"retention.ms": "-1"}
COMPACTED_ONLY = {"cleanup.policy": "compact"}


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize(
    ("of_broker", "of_topic"),
    [({}, FOR_EVER), ({}, COMPACTED_ONLY), ({"log.retention.ms": "-1"}, {})],
)
def test_retention_is_the_topics_also_before_anybody_uses_it(
    of_broker: dict[str, str], of_topic: dict[str, str], is_killed: bool
) -> None:
    with serve_in_thread(of_broker) as broker:
        topic = broker.topic(configs=of_topic)
        broker.produce(topic, *(Record(key=b"%d" % n, value=b"v", timestamp=0) for n in range(9)))
        broker.clock.advance(10)
        if is_killed:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        broker.clock.advance(3_600)
        assert [record.offset for record in broker.records(topic)] == list(range(9))


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_to_go_goes_also_when_nobody_uses_it(is_killed: bool) -> None:
    with serve_in_thread() as broker:
        topic = broker.topic(configs={"retention.ms": "60000", "file.delete.delay.ms": "0"})
        broker.produce(topic, Record(value=bytes(10_000)))
        broker.clock.advance(10)
        if is_killed:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        home = broker.data_dir / f"{topic}-0"
        pass_time_until(broker, lambda: not any(p.stat().st_size for p in home.glob("*.log*")))


def test_a_deleted_topics_files_are_removed_and_no_others() -> None:
    with serve_in_thread({"log.segment.delete.delay.ms": "0"}) as broker:
        kept, gone = broker.topic(), broker.topic()
        elsewhere = broker.data_dir.parent / f"{broker.data_dir.name}-elsewhere"
        elsewhere.mkdir()
        (elsewhere / "precious").write_text("kept")
        (broker.data_dir / "orders-0-to-delete").mkdir()
        (broker.data_dir / "notes-delete").write_text("kept")
        (broker.data_dir / "archive-delete").symlink_to(elsewhere)
        linked = f"linked-0.{'0' * 32}-delete"
        (broker.data_dir / linked).symlink_to(elsewhere)
        for topic in (kept, gone):
            broker.produce(topic, b"v")
        delete_topic(broker, gone)
        broker.restart()
        pass_time_until(broker, lambda: not list(broker.data_dir.glob(f"{gone}-*")))
        names = {path.name for path in broker.data_dir.iterdir()}
        assert {"orders-0-to-delete", "notes-delete", "archive-delete", linked} <= names
        assert (elsewhere / "precious").read_text() == "kept"
        assert len(broker.records(kept)) == 1


def test_a_topic_deleted_right_before_a_stop_is_no_stray() -> None:
    with serve_in_thread(topics={"gone": 50}) as broker:
        for partition in range(50):
            broker.produce("gone", b"v", partition=partition)
        delete_topic(broker, "gone")
        broker.restart()
        names = [path.name for path in broker.data_dir.iterdir()]
        assert not [name for name in names if name.endswith("-stray")]


def test_files_of_others_in_a_partition_do_no_harm() -> None:
    with serve_in_thread() as broker:
        topic = broker.topic()
        broker.produce(topic, b"v")
        home = broker.data_dir / f"{topic}-0"
        (home / "app.log").write_text("not a segment")
        (home / "lost+found.tmp").mkdir()
        (home / "00000000000000000000.log.bak").write_text("kept")
        for end in (broker.kill, broker.stop):
            end()
            broker.start()
            assert len(broker.records(topic)) == 1
        assert (home / "app.log").exists()
        assert (home / "00000000000000000000.log.bak").exists()


def pass_time_until(broker: ThreadBroker, is_so: Callable[[], bool]) -> None:
    """Files are removed in threads, which take their own time."""
    for _ in range(1000):
        broker.clock.advance(60)
        if is_so():
            return
    raise AssertionError("it never came true")


def delete_topic(broker: ThreadBroker, name: str) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        [answer] = client.ask(ApiKey.DELETE_TOPICS, 3, request).responses
        assert answer.error_code == 0


def test_a_topic_for_which_there_is_no_space_is_refused_and_nothing_breaks() -> None:
    with serve_in_thread() as broker:
        with broker.faults.fill_disk(), pytest.raises(KafkaError) as refused:
            broker.create_topic("one-too-many")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        broker.create_topic("one-too-many")
        broker.produce("one-too-many", b"v")
        assert len(broker.records("one-too-many")) == 1
