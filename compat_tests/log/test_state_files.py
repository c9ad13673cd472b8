"""The files beside the segments: Kafka reads what pyk writes, and pyk what Kafka wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.kafka.jars import run_java
from compat_tests.kafka.server import kafka_server
from pyk.disk import RealDisk
from pyk.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    mark_clean_shutdown,
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    write_offsets,
    write_topic_id,
)
from pyk.log.epochs import FILE_NAME as LEADER_EPOCHS
from pyk.log.epochs import LeaderEpochs
from pyk.log.producers import Producers
from pyk.log.snapshots import decode_snapshot, encode_snapshot
from pyk.log.transactions import AbortedTransaction, TransactionIndex
from pyk.types import TopicPartition
from pyk.wire.batch import BatchHeader, iterate_batches, read_header
from pyk.wire.payloads.control import EndTxnMarker
from pyk.wire.prefixed import ControlType, decode_control_type, decode_value, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records

DISK = RealDisk()
TOPIC = "told"
END_OFFSET = 14


def dump(path: Path) -> list[dict[str, str]]:
    """What DumpLogSegments prints of the file: one line for each entry, of names and values."""
    _, *lines = run_java(
        "org.apache.kafka.tools.DumpLogSegments", "--files", str(path)
    ).splitlines()
    pairs = [line.replace(": ", ":").split() for line in lines]
    return [dict(pair.split(":", 1) for pair in line) for line in pairs]


def data_batch(producer_id: int, sequence: int, offset: int, count: int) -> BatchHeader:
    records = [
        Record(offset=offset + i, timestamp=1000 + i, key=None, value=b"v") for i in range(count)
    ]
    batch = build_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=2,
        base_sequence=sequence,
        is_transactional=True,
    )
    return read_header(batch)


def marker_batch(producer_id: int, offset: int) -> BatchHeader:
    key, value = encode_end_marker(ControlType.ABORT, 6)
    batch = build_batch(
        [Record(offset=offset, timestamp=2000, key=key, value=value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=2,
        is_transactional=True,
        is_control=True,
    )
    return read_header(batch)


def test_kafka_reads_a_snapshot(tmp_path: Path) -> None:
    known = Producers()
    known.update(data_batch(77, sequence=2**31 - 2, offset=30, count=4))
    known.update(data_batch(2**62, sequence=0, offset=34, count=1))
    known.end_transaction(marker_batch(77, 35), ControlType.ABORT, 6)
    path = tmp_path / "00000000000000000042.snapshot"
    path.write_bytes(encode_snapshot(known))
    assert dump(path) == [
        {
            "producerId": "77",
            "producerEpoch": "2",
            "coordinatorEpoch": "6",
            "currentTxnFirstOffset": "OptionalLong.empty",
            "lastTimestamp": "2000",
            "firstSequence": "2147483646",
            "lastSequence": "1",
            "lastOffset": "33",
            "offsetDelta": "3",
            "timestamp": "2000",
        },
        {
            "producerId": "4611686018427387904",
            "producerEpoch": "2",
            "coordinatorEpoch": "-1",
            "currentTxnFirstOffset": "OptionalLong[34]",
            "lastTimestamp": "1000",
            "firstSequence": "0",
            "lastSequence": "0",
            "lastOffset": "34",
            "offsetDelta": "0",
            "timestamp": "1000",
        },
    ]


def test_kafka_reads_a_transaction_index(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000042.txnindex"
    index = TransactionIndex(DISK, path, base_offset=42)
    index.append(AbortedTransaction(7, first_offset=30, last_offset=50, last_stable_offset=45))
    index.append(AbortedTransaction(8, first_offset=45, last_offset=60, last_stable_offset=61))
    index.write()
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    assert dump(path) == [
        dict(zip(names, ("0", "7", "30", "50", "45"), strict=True)),
        dict(zip(names, ("0", "8", "45", "60", "61"), strict=True)),
    ]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Kafka leaves behind: a commit, an abort, a transaction that is open, a clean stop."""
    directory = tmp_path_factory.mktemp("kafka") / "data"
    with kafka_server({"log.dirs": str(directory)}) as server:
        common = {"bootstrap.servers": server.bootstrap_servers}
        plain = Producer({**common, "enable.idempotence": True})
        write(plain, 3)
        first = Producer({**common, "transactional.id": "first"})
        second = Producer({**common, "transactional.id": "second"})
        for producer in (first, second):
            producer.init_transactions(30)
        first.begin_transaction()
        write(first, 2)
        first.commit_transaction(30)
        second.begin_transaction()
        write(second, 1)
        first.begin_transaction()
        write(first, 4)
        first.abort_transaction(30)
        write(second, 2)
        # Markers are written some time after a client hears of the end, but before its successor
        # hears of its beginning.
        Producer({**common, "transactional.id": "first"}).init_transactions(30)
    return directory


def write(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.produce(TOPIC, b"value", partition=0)
    assert producer.flush(30) == 0


def replayed(log: Path) -> tuple[Producers, list[AbortedTransaction]]:
    known = Producers()
    aborted: list[AbortedTransaction] = []
    data = log.read_bytes()
    for position, header in iterate_batches(data, torn_tail_allowed=False):
        if header.is_control:
            (record,) = read_records(data, position, header)
            assert record.value is not None
            end = decode_value(EndTxnMarker, record.value)
            outcome = ControlType(decode_control_type(record.key))
            if found := known.end_transaction(header, outcome, end.coordinator_epoch):
                aborted.append(found)
        else:
            known.update(header)
    return known, aborted


def entries(known: Producers) -> bytes:
    """What Kafka's part of a snapshot says."""
    return encode_snapshot(known).split(b"pyk1")[0][6:]


def test_kafka_knows_of_its_producers_what_pyk_finds_in_its_log(data_dir: Path) -> None:
    partition = data_dir / f"{TOPIC}-0"
    known, aborted = replayed(partition / f"{0:020}.log")
    theirs = Producers()
    theirs.restore(decode_snapshot((partition / f"{END_OFFSET:020}.snapshot").read_bytes()))
    assert len(theirs) == 3
    assert entries(theirs) == entries(known)
    assert theirs.first_unstable_offset == known.first_undecided_offset is not None

    index = TransactionIndex(DISK, partition / f"{0:020}.txnindex", base_offset=0)
    index.load()
    assert len(aborted) == 1
    assert index.entries == aborted


def test_pyk_writes_the_checkpoints_that_kafka_wrote(data_dir: Path, tmp_path: Path) -> None:
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS):
        offsets = read_offsets(DISK, data_dir / name)
        write_offsets(DISK, tmp_path / name, offsets)
        ours, theirs = ((d / name).read_text().splitlines() for d in (tmp_path, data_dir))
        assert ours == theirs[:2] + sorted(theirs[2:])
    assert read_offsets(DISK, data_dir / RECOVERY_POINTS)[TopicPartition(TOPIC, 0)] == END_OFFSET


def test_pyk_writes_the_epochs_and_the_topic_id_that_kafka_wrote(
    data_dir: Path, tmp_path: Path
) -> None:
    partition = data_dir / f"{TOPIC}-0"
    epochs = LeaderEpochs(DISK, tmp_path)
    epochs.assign_all(LeaderEpochs.open(DISK, partition).entries)
    topic_id = read_topic_id(DISK, partition)
    assert topic_id is not None
    write_topic_id(DISK, tmp_path, topic_id)
    assert (tmp_path / LEADER_EPOCHS).read_bytes() == (partition / LEADER_EPOCHS).read_bytes()
    # A checksum follows, which Kafka passes over: see `test_data_directory`.
    theirs = (partition / PARTITION_METADATA).read_bytes()
    assert (tmp_path / PARTITION_METADATA).read_bytes().startswith(theirs + b"\nchecksum: ")
    assert epochs.entries == [(0, 0)]


def test_pyk_marks_a_clean_shutdown_as_kafka_does(data_dir: Path, tmp_path: Path) -> None:
    theirs = (data_dir / CLEAN_SHUTDOWN).read_bytes()
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(theirs)
    mark = read_clean_shutdown(DISK, tmp_path)
    assert mark is not None
    mark_clean_shutdown(DISK, tmp_path, mark.broker_epoch)
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == theirs
