"""The few verbs that every client is tried with, whoever wrote it.

An adapter is thin: it calls its client as that client's users do and turns what comes back into
plain values. A verb that it does not override is one that its client does not have, and the test
is skipped with a word about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, NoReturn, TypeAlias

import pytest

WAIT = 90.0
"""Seconds after which an answer will not come any more."""
REQUEST_BYTES_MAX = 8 * 1024**2
"""What clients are told to let through, so that it is the broker who refuses."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Position: TypeAlias = Literal["earliest", "latest", "max timestamp"] | int
"""Where in a log, or since which time in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record as it is put in."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    """None leaves it to the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record as it comes out."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    is_append_time: bool


class Cluster(NamedTuple):
    nodes: dict[int, str]
    """Addresses, as `host:port`."""
    controller: int | None


class Refused(Exception):
    """The broker said no. The message is the name of Kafka's error."""


class Client:
    name: ClassVar[str]
    codecs: ClassVar[Sequence[str]] = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, address: str) -> None:
        self.address = address

    def close(self) -> None:
        """Nothing of it is left, in this process or in another."""

    def lacks(self, what: str) -> NoReturn:
        pytest.skip(f"{self.name} has no way to {what}")

    def produce(
        self,
        topic: str,
        messages: Iterable[Sent],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        """Send all of them in this order and wait for what answers them. Raise Refused."""
        self.lacks("produce")

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        """From the offset to the end of the log."""
        self.lacks("consume")

    def consume_since(self, topic: str, timestamp: int, *, partition: int = 0) -> list[Found]:
        """From the first record of this time on, to the end. None if there is none."""
        offset = self.offset_at(topic, timestamp, partition=partition)
        return [] if offset is None else self.consume(topic, partition=partition, offset=offset)

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        """None where there is nothing as late as that."""
        self.lacks(f"ask for the offset at {position}")

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None
    ) -> None:
        """With so many partitions each. Raise Refused."""
        self.lacks("create topics")

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Raise Refused."""
        self.lacks("delete topics")

    def list_topics(self) -> set[str]:
        self.lacks("list topics")

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions each has, all of them with a leader. Raise Refused."""
        self.lacks("describe topics")

    def create_partitions(self, topic: str, count: int) -> None:
        """So that there are this many. Raise Refused."""
        self.lacks("create partitions")

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        """The offset that the log now starts with. Raise Refused."""
        self.lacks("delete records")

    def describe_config(self, topic: str) -> dict[str, str | None]:
        self.lacks("describe configurations")

    def alter_config(self, topic: str, key: str, value: str | None) -> None:
        """Change one key and no other. None takes back what was set. Raise Refused."""
        self.lacks("alter configurations incrementally")

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        """What is not in it is taken back. Raise Refused."""
        self.lacks("replace configurations")

    def describe_cluster(self) -> Cluster:
        self.lacks("describe the cluster")

    def describe_log_dirs(self) -> dict[str, set[tuple[str, int]]]:
        """The partitions in each directory."""
        self.lacks("describe log directories")

    def describe_features(self) -> dict[str, int]:
        """The level of each that is finalised."""
        self.lacks("describe features")
