"""The same requests to Apache Kafka and to pyk, and what of the answers must be the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from compat_tests.kafka.server import kafka_server
from pyk.types import Uuid
from pyk.wire.apis import ApiKey
from tests.clients.brokers import running
from tests.clients.raw import RawClient

HUNG_UP = "hung up"
IGNORED = frozenset(
    {
        "throttle_time_ms",
        "cluster_id",
        "host",
        "port",
        "controller_id",
        "session_id",
        "error_message",
        "batch_index_error_message",
    }
)
"""Ids, addresses and sentences: each side has its own."""


@dataclass
class Side:
    """One of the two brokers."""

    name: str
    address: str
    topic_ids: dict[Uuid, str]

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """On a connection of its own, so that nothing that happened before matters."""
        with RawClient(self.address) as client:
            try:
                return client.ask(key, version, request)
            except EOFError:
                return HUNG_UP

    def plain(self, value: Any, field: str = "") -> Any:
        """The answer as plain values, without what must differ."""
        if isinstance(value, msgspec.Struct):
            return {
                name: self.plain(getattr(value, name), name)
                for name in value.__struct_fields__
                if name not in IGNORED
            }
        if isinstance(value, list):
            found = [self.plain(each, field) for each in value]
            # Kafka answers partitions in the order of a hash table.
            return sorted(found, key=_index) if field == "partition_responses" else found
        if field == "topic_id":
            return self.topic_ids.get(value, value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return value


@dataclass
class Sides:
    kafka: Side
    pyk: Side
    compared: int = 0

    @contextmanager
    @staticmethod
    def open(data_dir: Path, options: Mapping[str, str]) -> Iterator[Sides]:
        with ExitStack() as stack:
            kafka = stack.enter_context(kafka_server(options))
            pairs = [word for pair in options.items() for word in ("-o", "=".join(pair))]
            pyk = stack.enter_context(running(data_dir, *pairs))
            yield Sides(Side("kafka", kafka.bootstrap_servers, {}), Side("pyk", pyk.address, {}))

    def compare(
        self,
        key: ApiKey,
        version: int,
        request: Any | Callable[[Side], Any],
        known: Sequence[str] = (),
    ) -> list[str]:
        """Ask both. The differences, as lines, but for those that match one of `known`."""
        answers = []
        for side in (self.kafka, self.pyk):
            asked = request(side) if callable(request) else request
            answers.append(side.plain(side.ask(key, version, asked)))
        self.compared += 1
        lines = differences(*answers)
        return [line for line in lines if not any(re.search(each, line) for each in known)]


def _index(partition: dict[str, Any]) -> int:
    found: int = partition["index"]
    return found


def differences(kafka: Any, pyk: Any, path: str = "") -> list[str]:
    if isinstance(kafka, dict) and isinstance(pyk, dict):
        return [
            line for name in kafka for line in differences(kafka[name], pyk[name], f"{path}.{name}")
        ]
    if isinstance(kafka, list) and isinstance(pyk, list) and len(kafka) == len(pyk):
        return [
            line
            for number, (one, other) in enumerate(zip(kafka, pyk, strict=True))
            for line in differences(one, other, f"{path}[{number}]")
        ]
    return [] if kafka == pyk else [f"{path}: kafka {kafka!r}, pyk {pyk!r}"]
