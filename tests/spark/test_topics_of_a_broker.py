"""Which topics there are, and whose logs they have, in the data directory of a broker that runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyk.client.cluster import Cluster
from pyk.client.topics import create_partitions, delete_topics
from pyk.disk import RealDisk
from pyk.log.checkpoints import PARTITION_METADATA, RECOVERY_POINTS, write_offsets
from pyk.log.stored_log import LogDamaged
from pyk.metadata.journal import DIRECTORY_NAME, FILE_NAME
from pyk.spark.logs import DataLost
from pyk.spark.options import InvalidOption, ReadOptions
from pyk.spark.plan import plan
from pyk.testing import ThreadBroker, serve_in_thread
from pyk.types import TopicPartition
from tests.spark.stored import damage, read, read_one


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    with serve_in_thread(data_dir=tmp_path) as broker:
        yield broker


def options(broker: ThreadBroker, **more: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(broker.data_dir), **more})


def values(broker: ThreadBroker, **more: str) -> list[bytes | None]:
    return [record.value for record in read(options(broker, **more))]


def test_partitions_that_nobody_has_used_are_empty(broker: ThreadBroker) -> None:
    broker.create_topic("used", 4)
    broker.create_topic("unused")
    broker.produce("used", b"a", b"b", partition=1)
    assert not (broker.data_dir / "unused-0").exists()
    assert values(broker, subscribe="used,unused") == [b"a", b"b"]
    assert values(broker, subscribe="unused") == []
    assert values(broker, subscribePattern="used") == [b"a", b"b"]
    assert values(broker, assign='{"used": [0, 1, 2, 3], "unused": [0]}') == [b"a", b"b"]
    ends = '{"used": {"0": 0, "1": 2, "2": -1, "3": 0}}'
    assert values(broker, subscribe="used", endingOffsets=ends) == [b"a", b"b"]


def test_an_empty_partition_is_asked_for_as_one_that_is_used(broker: ThreadBroker) -> None:
    broker.create_topic("unused")
    beyond = '{"unused": {"0": 1}}'
    with pytest.raises(DataLost, match="unused-0 has the offsets from 0 to before 0, and not 1"):
        values(broker, subscribe="unused", endingOffsets=beyond)
    with pytest.raises(InvalidOption, match="no record at or after the time 5"):
        values(broker, subscribe="unused", startingTimestamp="5")
    with pytest.raises(InvalidOption, match="has no topic nobody"):
        values(broker, subscribe="nobody")
    with pytest.raises(InvalidOption, match="has no partition unused-1"):
        values(broker, assign='{"unused": [0, 1]}')


def test_topics_that_are_changed_and_deleted_meanwhile_are_known(broker: ThreadBroker) -> None:
    broker.create_topic("grows")
    broker.create_topic("goes")
    with Cluster.connect(broker.bootstrap_servers) as cluster:
        create_partitions(cluster, "grows", 3)
        delete_topics(cluster, ["goes"])
    assert values(broker, assign='{"grows": [0, 1, 2]}') == []
    with pytest.raises(InvalidOption, match="has no topic goes"):
        values(broker, subscribe="goes")


def test_a_log_that_was_there_once_is_not_taken_for_one_that_nobody_used(
    broker: ThreadBroker,
) -> None:
    broker.create_topic("lost")
    broker.stop()
    write_offsets(RealDisk(), broker.data_dir / RECOVERY_POINTS, {TopicPartition("lost", 0): 5})
    with pytest.raises(DataLost, match="lost-0 is not there, and once had records before 5"):
        values(broker, subscribe="lost")
    assert values(broker, subscribe="lost", failOnDataLoss="false") == []
    broker.start()


def test_logs_that_were_moved_aside_are_nobodys(broker: ThreadBroker) -> None:
    broker.produce("orders", b"a")
    broker.stop()
    for name in ("orders-1.0f4d-stray", "orders-2.0f4d-delete", "gone-0.0f4d-stray"):
        (broker.data_dir / name).mkdir()
    assert values(broker, subscribePattern=".*") == [b"a"]
    broker.start()


def test_metadata_that_is_damaged_is_an_error_or_left_out(broker: ThreadBroker) -> None:
    broker.produce("orders", b"a")
    broker.stop()
    path = broker.data_dir / DIRECTORY_NAME / FILE_NAME
    whole = path.read_bytes()
    damage(path, 0, b"x")
    with pytest.raises(LogDamaged, match="metadata: the header is damaged"):
        values(broker, subscribe="orders")
    assert values(broker, subscribe="orders", damage="skip") == [b"a"]
    path.write_bytes(whole)
    broker.start()


def test_metadata_that_is_being_written_is_not_there_yet(broker: ThreadBroker) -> None:
    broker.create_topic("unused")
    broker.stop()
    path = broker.data_dir / DIRECTORY_NAME / FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:20])
    assert values(broker, subscribe="unused") == []
    broker.start()
    assert values(broker, subscribe="unused") == []


def test_a_topic_that_is_made_anew_after_planning_is_not_read(broker: ThreadBroker) -> None:
    broker.produce("orders", b"old", b"old")
    wanted = options(broker, subscribe="orders")
    (split,) = plan(wanted)
    with Cluster.connect(broker.bootstrap_servers) as cluster:
        delete_topics(cluster, ["orders"])
    broker.produce("orders", b"of another topic", b"of another topic")
    with pytest.raises(DataLost, match="orders-0 has lost its offsets from 0 to before 2"):
        read_one(split, wanted)
    reports: list[str] = []
    assert read_one(split, replace(wanted, fails_on_data_loss=False), reports=reports) == []
    assert len(reports) == 1
    assert values(broker, subscribe="orders") == [b"of another topic"] * 2


def test_a_log_that_does_not_say_whose_it_is_is_damaged(broker: ThreadBroker) -> None:
    broker.produce("orders", b"a")
    broker.stop()
    path = broker.data_dir / "orders-0" / PARTITION_METADATA
    whole = path.read_bytes()
    damage(path, 0, b"VERSION")
    with pytest.raises(LogDamaged, match=PARTITION_METADATA):
        values(broker, subscribe="orders")
    assert values(broker, subscribe="orders", damage="skip") == [b"a"]
    path.write_bytes(whole)
    broker.start()
