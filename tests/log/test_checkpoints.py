"""The small files of a log directory: what is in them, and that damage is always the one error."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.disk import RealDisk
from pyk.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
    DamagedCheckpoint,
    mark_clean_shutdown,
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    remove_clean_shutdown,
    write_offsets,
    write_topic_id,
)
from pyk.types import TopicPartition, Uuid

DISK = RealDisk()
TOPIC_ID = Uuid(bytes.fromhex("fbf0000102030405060708090a0b0cff"))

a_partition = st.builds(
    TopicPartition,
    st.text("abcXYZ019._-", min_size=1, max_size=249),
    st.integers(0, 2**31 - 1),
)


def test_offsets_are_lines_of_text_after_version_and_count(tmp_path: Path) -> None:
    path = tmp_path / RECOVERY_POINTS
    offsets = {TopicPartition("t.two", 10): 7, TopicPartition("one", 0): 2**63 - 1}
    write_offsets(DISK, path, offsets)
    assert path.read_text() == "0\n2\none 0 9223372036854775807\nt.two 10 7\n"
    assert read_offsets(DISK, path) == offsets


def test_no_file_has_no_offsets(tmp_path: Path) -> None:
    assert read_offsets(DISK, tmp_path / HIGH_WATERMARKS) == {}
    write_offsets(DISK, tmp_path / HIGH_WATERMARKS, {})
    assert (tmp_path / HIGH_WATERMARKS).read_text() == "0\n0\n"
    assert read_offsets(DISK, tmp_path / HIGH_WATERMARKS) == {}


@pytest.mark.parametrize(
    "text",
    [
        "0\n",
        "1\n0\n",
        "0\n1\n",
        "0\n1\nt 0 5",
        "0\n1\nt 0 5\nt 1 5\n",
        "0\n2\nt 0 5\nt 0 6\n",
        "0\n1\nt 0\n",
        "0\n1\nt 0 5 6\n",
        "0\n1\nt 0 -1\n",
        "0\n1\nt 0 +1\n",
        "0\n1\nt 0 1_0\n",
        "0\n1\nt 0 \N{ARABIC-INDIC DIGIT FIVE}\n",
        "0\n1\nt 0 9223372036854775808\n",
        "0\n1\nt 2147483648 5\n",
        "0\n1\nt/u 0 5\n",
        "0\n1\n" + "t" * 250 + " 0 5\n",
    ],
)
def test_other_text_is_damage(text: str, tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINTS).write_text(text)
    with pytest.raises(DamagedCheckpoint, match=RECOVERY_POINTS):
        read_offsets(DISK, tmp_path / RECOVERY_POINTS)


def test_kafka_makes_empty_files_without_entries(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINTS).write_text("")
    assert read_offsets(DISK, tmp_path / RECOVERY_POINTS) == {}


@given(st.dictionaries(a_partition, st.integers(0, 2**63 - 1), max_size=5), st.data())
def test_offsets_come_back_whole_or_not_at_all(
    offsets: dict[TopicPartition, int], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, RECOVERY_POINTS)
        write_offsets(DISK, path, offsets)
        assert read_offsets(DISK, path) == offsets
        path.write_bytes(path.read_bytes()[: data.draw(st.integers(1, path.stat().st_size - 1))])
        with pytest.raises(DamagedCheckpoint):
            read_offsets(DISK, path)


def test_a_partition_says_whose_it_is(tmp_path: Path) -> None:
    assert read_topic_id(DISK, tmp_path) is None
    write_topic_id(DISK, tmp_path, TOPIC_ID)
    text = (tmp_path / PARTITION_METADATA).read_text()
    assert text == "version: 0\ntopic_id: -_AAAQIDBAUGBwgJCgsM_w\nchecksum: d4a87656"
    assert read_topic_id(DISK, tmp_path) == TOPIC_ID


@pytest.mark.parametrize("end", ["", "\n"])
def test_kafka_writes_no_checksum_into_it(end: str, tmp_path: Path) -> None:
    text = f"version: 0\ntopic_id: -_AAAQIDBAUGBwgJCgsM_w{end}"
    (tmp_path / PARTITION_METADATA).write_text(text)
    assert read_topic_id(DISK, tmp_path) == TOPIC_ID


def test_no_flipped_bit_makes_another_topics_of_it(tmp_path: Path) -> None:
    write_topic_id(DISK, tmp_path, TOPIC_ID)
    path = tmp_path / PARTITION_METADATA
    written = path.read_bytes()
    for bit in range(8 * len(written)):
        data = bytearray(written)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(DamagedCheckpoint, match=PARTITION_METADATA):
            read_topic_id(DISK, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0\n",
        "version: 1\ntopic_id: -_AAAQIDBAUGBwgJCgsM_w",
        "version: 0\ntopic_id: -_AAAQIDBAUGBwgJCgsM_",
        "version: 0\ntopic_id: -_AAAQIDBAUGBwgJCgsM_x",
        "version: 0\ntopic_id: +/AAAQIDBAUGBwgJCgsM/w",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_another_topic_id_is_damage(text: str, tmp_path: Path) -> None:
    (tmp_path / PARTITION_METADATA).write_text(text)
    with pytest.raises(DamagedCheckpoint, match=PARTITION_METADATA):
        read_topic_id(DISK, tmp_path)


def test_a_clean_shutdown_is_good_for_one_start(tmp_path: Path) -> None:
    assert read_clean_shutdown(DISK, tmp_path) is None
    mark_clean_shutdown(DISK, tmp_path, broker_epoch=71)
    assert (tmp_path / CLEAN_SHUTDOWN).read_text() == '{"version":0,"brokerEpoch":71}'
    assert read_clean_shutdown(DISK, tmp_path) == CleanShutdown(0, 71)
    remove_clean_shutdown(DISK, tmp_path)
    assert read_clean_shutdown(DISK, tmp_path) is None


def test_a_clean_shutdown_names_the_partitions_for_which_it_does_not_speak(tmp_path: Path) -> None:
    mark_clean_shutdown(DISK, tmp_path, 71, ["orders-0"])
    assert read_clean_shutdown(DISK, tmp_path) == CleanShutdown(0, 71, ["orders-0"])


def test_a_clean_shutdown_may_say_more_than_we_know(tmp_path: Path) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_text('{"brokerEpoch": 3, "version": 0, "mood": [1]}')
    assert read_clean_shutdown(DISK, tmp_path) == CleanShutdown(0, 3)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version":0}', '{"version":1,"brokerEpoch":7}', '{"x":' + "[" * 100_000]
)
def test_a_damaged_mark_of_a_clean_shutdown_is_reported_once(text: str, tmp_path: Path) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_text(text)
    with pytest.raises(DamagedCheckpoint, match=CLEAN_SHUTDOWN):
        read_clean_shutdown(DISK, tmp_path)
    remove_clean_shutdown(DISK, tmp_path)
    assert read_clean_shutdown(DISK, tmp_path) is None


@given(st.binary(max_size=80) | st.text("0129 \nt-{}:", max_size=30).map(str.encode))
def test_any_bytes_are_read_or_damaged(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for file_name in (RECOVERY_POINTS, PARTITION_METADATA, CLEAN_SHUTDOWN):
            (directory / file_name).write_bytes(data)
        for read in (
            lambda: read_offsets(DISK, directory / RECOVERY_POINTS),
            lambda: read_topic_id(DISK, directory),
            lambda: read_clean_shutdown(DISK, directory),
        ):
            with contextlib.suppress(DamagedCheckpoint):
                read()
