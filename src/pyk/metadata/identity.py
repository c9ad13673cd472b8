"""`meta.properties`: to which node of which cluster a data directory belongs, as Kafka keeps it.

What is there of another node or cluster is not served: its logs would be taken for others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from pyk.disk import Disk
from pyk.errors import ErrorCode, KafkaError

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"
_NODE_IDS: Final = {"0": "broker.id", "1": "node.id"}
"""By the versions of the file."""


class Identity(Struct, frozen=True):
    node_id: int
    cluster_id: str


def read_identity(disk: Disk, path: Path) -> Identity | None:
    """Whose the directory is, if it says so. Raise KafkaError if that cannot be read."""
    file = path / FILE_NAME
    if not disk.exists(file):
        return None
    try:
        lines = disk.read(file).decode().splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line and line[0] not in "#!")
        found = {key.strip(): value.strip() for key, _, value in pairs}
        node_id = int(found[_NODE_IDS[found["version"]]])
        return Identity(node_id, found["cluster.id"])
    except (UnicodeDecodeError, KeyError, ValueError) as wrong:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{file} does not say whose the directory is ({wrong!r}): put it right, or remove it if"
            " you know that the directory is this node's",
        ) from None


def write_identity(disk: Disk, path: Path, identity: Identity, directory_id: str) -> None:
    """Say whose the directory is, durably. Raise OSError."""
    lines = [
        f"cluster.id={identity.cluster_id}",
        f"directory.id={directory_id}",
        f"node.id={identity.node_id}",
        f"version={_VERSION}",
        "",
    ]
    disk.replace(path / FILE_NAME, "\n".join(lines).encode())


def check_identity(path: Path, found: Identity, wanted: Identity) -> None:
    """Raise KafkaError if a directory is another node's."""
    if found.node_id != wanted.node_id:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"node.id: {wanted.node_id}, but {path} belongs to node {found.node_id}, as its"
            f" {FILE_NAME} says",
        )
    if found.cluster_id != wanted.cluster_id:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the metadata is of the cluster {wanted.cluster_id}, but {path} belongs to"
            f" {found.cluster_id}, as its {FILE_NAME} says",
        )
