"""Kafka's Java client, in a process that answers line by line."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests.kafka import jars
from tests.clients.adapters.client import (
    REQUEST_BYTES_MAX,
    WAIT,
    Client,
    Cluster,
    Found,
    Position,
    Refused,
    Sent,
)

SOURCE = Path(__file__).with_name("JavaClient.java")


class JavaClient(Client):
    name = "Java"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        command = jars.java_command("JavaClient", address, classes=jars.compiled(SOURCE))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT)
        self._process.stdout.close()

    def _ask(self, verb: str, **asked: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **asked}).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["ok"]

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
        self._ask(
            "produce",
            topic=topic,
            partition=partition,
            codec=codec,
            acks=acks,
            idempotent=idempotent,
            request_bytes_max=REQUEST_BYTES_MAX,
            messages=[
                {
                    "key": _text(each.key),
                    "value": _text(each.value),
                    "headers": [(name, _text(value)) for name, value in each.headers],
                    "timestamp": each.timestamp,
                }
                for each in messages
            ],
        )

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        return [
            Found(
                offset=each["offset"],
                key=_bytes(each["key"]),
                value=_bytes(each["value"]),
                headers=tuple((name, _bytes(value)) for name, value in each["headers"]),
                timestamp=each["timestamp"],
                is_append_time=each["is_append_time"],
            )
            for each in self._ask("consume", topic=topic, partition=partition, offset=offset)
        ]

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        offset: int = self._ask("offset_at", topic=topic, partition=partition, position=position)
        return None if offset < 0 else offset

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None
    ) -> None:
        self._ask("create_topics", topics=dict(topics), configs=dict(configs or {}))

    def delete_topics(self, topics: Sequence[str]) -> None:
        self._ask("delete_topics", topics=list(topics))

    def list_topics(self) -> set[str]:
        return set(self._ask("list_topics"))

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        return dict(self._ask("describe_topics", topics=list(topics)))

    def create_partitions(self, topic: str, count: int) -> None:
        self._ask("create_partitions", topic=topic, count=count)

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        return int(self._ask("delete_records", topic=topic, partition=partition, before=before))

    def describe_config(self, topic: str) -> dict[str, str | None]:
        return dict(self._ask("describe_config", topic=topic))

    def alter_config(self, topic: str, key: str, value: str | None) -> None:
        self._ask("alter_config", topic=topic, key=key, value=value)

    def describe_cluster(self) -> Cluster:
        found = self._ask("describe_cluster")
        return Cluster({int(node): at for node, at in found["nodes"].items()}, found["controller"])

    def describe_log_dirs(self) -> dict[str, set[tuple[str, int]]]:
        return {
            path: {(topic, partition) for topic, partition in held}
            for path, held in self._ask("describe_log_dirs").items()
        }

    def describe_features(self) -> dict[str, int]:
        return dict(self._ask("describe_features"))


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
