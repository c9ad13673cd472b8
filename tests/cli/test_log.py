"""`pyk log`: files as they are, whole or not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch
from tests.cli.commands import pyk
from tests.clients.brokers import running

NOW = 1_700_000_000_000
FIRST = "00000000000000000000"


def append(log: Log, batch: bytes) -> None:
    log.append(bytearray(batch), leader_epoch=3, now_ms=NOW)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Ten batches of two records each, over some segments, and a closed log."""
    directory = tmp_path / "orders-0"
    log = Log.open(RealDisk(), directory, LogConfig(segment_bytes=1000, index_interval_bytes=100))
    for number in range(10):
        records = [
            Record(n, NOW + number, b"k%d" % (number % 2), b"%d" % number * 50) for n in range(2)
        ]
        append(
            log,
            build_batch(records, producer_id=7, producer_epoch=0, base_sequence=2 * number),
        )
    log.flush()
    log.close()
    return directory


def dumped(*arguments: str | Path) -> tuple[list[dict[str, Any]], int]:
    done = pyk("log", "dump", *map(str, arguments), "--format", "json")
    assert done.err == ""
    return [json.loads(line) for line in done.lines], done.code


def test_a_directory_is_dumped_batch_by_batch(partition: Path) -> None:
    for path in (partition, partition.parent):
        found, code = dumped(path)
        assert code == 0
        assert [each["base_offset"] for each in found] == list(range(0, 20, 2))
        assert {each["valid"] for each in found} == {True}
    assert len({each["file"] for each in found}) > 1
    assert found[0]["file"] == f"orders-0/{FIRST}.log"
    assert (found[3]["producer_id"], found[3]["base_sequence"], found[3]["leader_epoch"]) == (
        7,
        6,
        3,
    )


def test_records_are_chosen_by_offset_and_key(partition: Path) -> None:
    found, _ = dumped(partition, "--records", "--offsets", "5:8")
    assert [record["offset"] for each in found for record in each["records"]] == [5, 6, 7]
    found, _ = dumped(partition, "--keys", "k1")
    assert {record["key"] for each in found for record in each["records"]} == {"k1"}
    assert len(found) == 5


def test_a_partition_of_a_data_directory_is_chosen_by_name(partition: Path) -> None:
    assert len(dumped(partition.parent, "--partition", "orders-0")[0]) == 10
    done = pyk("log", "dump", str(partition.parent), "--partition", "orders-7")
    assert (done.code, done.err) == (1, f"pyk: {partition.parent} has no partition orders-7\n")
    listed = json.loads(pyk("log", "list", str(partition.parent), "--format", "json").out)
    assert (listed[0]["partition"], listed[0]["first_offset"]) == ("orders-0", 0)


def test_indexes_and_snapshots_are_dumped(partition: Path) -> None:
    offsets, code = dumped(partition / f"{FIRST}.index")
    assert code == 0
    logged, _ = dumped(partition / f"{FIRST}.log")
    positions = {each["position"]: each["last_offset"] for each in logged}
    assert offsets
    assert all(positions[each["position"]] == each["offset"] for each in offsets)
    times, _ = dumped(partition / f"{FIRST}.timeindex")
    assert times[-1]["timestamp"] == NOW + times[-1]["offset"] // 2
    snapshot = max(partition.glob("*.snapshot"))
    (producer,), _ = dumped(snapshot)
    assert (producer["producer_id"], producer["last_offset"]) == (7, 19)


def test_transactions_are_shown(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = Log.open(RealDisk(), directory, LogConfig())
    data = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append(log, build_batch([Record(0, NOW, None, b"x")], base_sequence=0, **data))  # type: ignore[arg-type]
    key, value = encode_end_marker(ControlType.ABORT, 0)
    append(log, build_batch([Record(0, NOW, key, value)], is_control=True, **data))  # type: ignore[arg-type]
    log.flush()
    log.close()
    found, _ = dumped(directory, "--records")
    assert [each["flags"] for each in found] == [["transactional"], ["transactional", "control"]]
    assert found[1]["records"] == [{"offset": 1, "timestamp": NOW, "control": "ABORT"}]
    (aborted,), _ = dumped(directory / f"{FIRST}.txnindex")
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (7, 0, 1)


def damage(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_a_bad_crc_is_reported_and_the_rest_is_read(partition: Path) -> None:
    file = partition / f"{FIRST}.log"
    second = dumped(file)[0][1]["position"]
    damage(file, second + 70, b"\xff")
    found, code = dumped(file)
    assert code == 1
    assert [each.get("valid") for each in found][:4] == [True, False, None, True]
    assert found[2]["position"] == second
    assert "CRC" in found[2]["error"]


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (16, b"\x09", "unknown magic 9"),
        (16, b"\x01", "message format 1 is no longer supported"),
        (8, struct.pack(">i", 5), "a batch length of 5 is less than a header"),
        (8, struct.pack(">i", 10**6), "a batch of 1000012 bytes, of which"),
    ],
)
def test_a_batch_whose_size_cannot_be_right_ends_the_file(
    partition: Path, at: int, data: bytes, reason: str
) -> None:
    file = partition / f"{FIRST}.log"
    second = dumped(file)[0][1]["position"]
    damage(file, second + at, data)
    found, code = dumped(file)
    assert code == 1
    assert len(found) == 2
    assert found[1]["position"] == second
    assert reason in found[1]["error"]
    others = [each["file"] for each in dumped(partition)[0] if "error" not in each]
    assert len(set(others)) > 1


def test_a_torn_tail_and_zeros_are_told_apart(partition: Path) -> None:
    file = partition / f"{FIRST}.log"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    assert "of which" in dumped(file)[0][-1]["error"]
    file.write_bytes(whole + bytes(500))
    assert dumped(file)[0][-1]["error"] == "nothing but zeros in the last 500 bytes"


def test_records_that_do_not_inflate_are_reported(tmp_path: Path) -> None:
    directory = tmp_path / "z-0"
    directory.mkdir()
    batch = bytearray(build_batch([Record(0, NOW, None, b"x" * 99)], compression=Compression.GZIP))
    batch[61:] = b"x" * (len(batch) - 61)
    from crc32c import crc32c

    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    (directory / f"{FIRST}.log").write_bytes(batch)
    found, code = dumped(directory, "--records")
    assert code == 1
    assert "gzip" in found[0]["error"]


def test_an_index_that_does_not_fit_its_log_is_reported(partition: Path) -> None:
    index = partition / f"{FIRST}.index"
    whole = index.read_bytes()
    damage(index, 4, struct.pack(">I", 3))
    found, code = dumped(index)
    assert code == 1
    assert "there is no batch at 3 of the log" in found[1]["error"]
    index.write_bytes(whole + bytes(80))
    assert dumped(index) == (dumped_entries(whole), 0)
    index.write_bytes(whole + b"\x01")
    assert dumped(index)[0][-1]["error"] == "1 bytes that are no whole entry"
    index.write_bytes(whole[8:16] + whole[:8])
    assert any("not after" in each.get("error", "") for each in dumped(index)[0])


def dumped_entries(data: bytes) -> list[dict[str, Any]]:
    return [
        {"file": f"{FIRST}.index", "offset": offset, "position": position}
        for offset, position in struct.iter_unpack(">II", data)
    ]


def test_a_damaged_snapshot_is_reported(partition: Path) -> None:
    snapshot = max(partition.glob("*.snapshot"))
    damage(snapshot, 10, b"\xff\xff")
    (found,), code = dumped(snapshot)
    assert (found["position"], code) == (0, 1)
    assert found["error"]


def test_a_text_dump_has_headings_and_records(partition: Path) -> None:
    lines = pyk("log", "dump", str(partition / f"{FIRST}.log"), "--records").lines
    assert lines[0] == f"{FIRST}.log"
    assert lines[1].startswith("BASE-OFFSET  LAST-OFFSET  COUNT")
    assert lines[2].split()[:3] == ["0", "1", "2"]
    assert lines[3].strip().startswith("| 0  2023-11-14T22:13:20.000Z  k0  000")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("partition.metadata",), "is not a file of a partition"),
        (("empty",), "has no partitions in it"),
        (("nobody",), "does not exist"),
        ((f"orders-0/{FIRST}.log", "--offsets", "5"), "is not a range of offsets"),
        ((f"orders-0/{FIRST}.log", "--partition", "x-0"), "is for a data directory"),
    ],
)
def test_what_cannot_be_dumped_is_one_line(
    partition: Path, arguments: tuple[str, ...], said: str
) -> None:
    root = partition.parent
    (root / "empty").mkdir()
    (root / "partition.metadata").write_text("version: 0")
    done = pyk("log", "dump", str(root / arguments[0]), *arguments[1:])
    assert done.code in (1, 2)
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_broker_may_go_on_meanwhile(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        pyk("produce", "live", bootstrap=broker.address, stdin=b"a\nb\n")
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        found, code = dumped(tmp_path, "--records")
        assert code == 0
        assert [record["value"] for record in found[0]["records"]] == ["a", "b"]
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
