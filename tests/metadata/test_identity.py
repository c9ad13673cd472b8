"""To which node a data directory belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyk.disk import RealDisk
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.identity import (
    FILE_NAME,
    Identity,
    check_identity,
    read_identity,
    write_identity,
)
from pyk.testing import serve_in_thread

DISK = RealDisk()
MINE = Identity(1, "the-cluster")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_identity(DISK, tmp_path) is None
    write_identity(DISK, tmp_path, MINE, "a-directory")
    assert read_identity(DISK, tmp_path) == MINE


@pytest.mark.parametrize(
    "text",
    [
        "#\n#Wed Nov 18\nnode.id=1\ndirectory.id=x\nversion=1\ncluster.id=the-cluster\n",
        "broker.id=1\nversion=0\ncluster.id=the-cluster\n",
        "version = 1\r\nnode.id = 1\r\ncluster.id = the-cluster\r\n",
    ],
)
def test_what_kafka_has_written_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert read_identity(DISK, tmp_path) == MINE


@pytest.mark.parametrize(
    "text",
    ["", "version=1\n", "version=2\nnode.id=1\ncluster.id=c\n", "version=1\nnode.id=x\n", "\xff"],
)
def test_what_does_not_say_whose_it_is_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(KafkaError, match=FILE_NAME):
        read_identity(DISK, tmp_path)


@pytest.mark.parametrize("other", [Identity(2, "the-cluster"), Identity(1, "another")])
def test_another_nodes_directory_is_refused(other: Identity) -> None:
    check_identity(Path("data"), MINE, MINE)
    with pytest.raises(KafkaError, match=FILE_NAME):
        check_identity(Path("data"), MINE, other)


def test_a_broker_of_another_number_does_not_start_and_changes_nothing(tmp_path: Path) -> None:
    with serve_in_thread({"node.id": "1"}, data_dir=tmp_path) as broker:
        broker.produce(broker.topic(), b"v")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(KafkaError) as refused:
        serve_in_thread({"node.id": "2"}, data_dir=tmp_path)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_directory_that_has_lost_its_metadata_is_still_of_its_cluster(tmp_path: Path) -> None:
    with serve_in_thread(data_dir=tmp_path) as broker:
        topic = broker.topic()
        broker.produce(topic, b"v")
    found = read_identity(DISK, tmp_path)
    assert found is not None
    for path in (tmp_path / "metadata").iterdir():
        path.unlink()
    with serve_in_thread(data_dir=tmp_path) as broker:
        assert broker._context.image.cluster_id == found.cluster_id
    [stray] = tmp_path.glob(f"{topic}-0.*-stray")
    assert (stray / f"{0:020}.log").stat().st_size > 0
