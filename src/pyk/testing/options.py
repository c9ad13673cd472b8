"""What a test broker is configured with, and where it lives."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from pyk.config.settings import BrokerSettings
from pyk.config.sources import gather
from pyk.errors import ErrorCode, KafkaError

HOST: Final = "127.0.0.1"
"""As an address, since names take time to resolve."""

Topics: TypeAlias = Iterable[str] | Mapping[str, int]
"""Names, or names with their numbers of partitions."""

DEFAULTS: Final = MappingProxyType(
    {
        # Nobody else will join: do not wait for them.
        "group.initial.rebalance.delay.ms": "0",
        # A test that wants to see a member go does not want to wait six seconds for it.
        "group.min.session.timeout.ms": "1",
        # Fifty partitions are for clusters. One is as good, and is there sooner.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
)
"""Where a test wants something else than Kafka's defaults."""


def settings_for(config: Mapping[str, str], port: int, data_dir: Path) -> BrokerSettings:
    """Raise KafkaError for a value that is wrong, and for a key that Kafka does not have: in a
    test that is a slip, and no message for the future."""
    place = {"listeners": f"PLAINTEXT://{HOST}:{port}", "log.dirs": str(data_dir)}
    found = gather(DEFAULTS, place, config)
    if found.unknown:
        names = ", ".join(found.unknown)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Kafka has no broker keys named {names}")
    return BrokerSettings(found.values)


def partitions_of(topics: Topics) -> dict[str, int]:
    return dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)


def new_name(prefix: str) -> str:
    """A topic's, that no other has."""
    return f"{prefix}-{os.urandom(6).hex()}"


class Home:
    """A port and a directory that stay a broker's while it is down.

    The port is bound and nobody listens there, so that clients are refused and nobody else gets it.
    """

    def __init__(self, data_dir: Path | str | None, port: int) -> None:
        self.is_temporary = data_dir is None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix="pyk-"))

    def leave(self) -> None:
        self._socket.close()
        if self.is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
