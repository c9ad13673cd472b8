"""kcat, a program that is run once for each thing that is wanted of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from tests.clients.adapters.client import (
    REQUEST_BYTES_MAX,
    WAIT,
    Client,
    Found,
    Position,
    Refused,
    Sent,
)
from tests.clients.adapters.confluent import CODECS

KEY_END = b"\x1f"
MESSAGES_END = b"\x1e"
"""Nobody sends these."""
ERRORS = {"Message size too large": "MESSAGE_TOO_LARGE"}


class Kcat(Client):
    name = "kcat"
    codecs = CODECS

    def __init__(self, address: str) -> None:
        super().__init__(address)
        path = shutil.which("kcat")
        assert path is not None, "`kcat` is not in PATH. On Debian: apt install kcat"
        self._path = path

    def _run(self, *arguments: str, data: bytes = b"") -> bytes:
        command = [self._path, "-b", self.address, *arguments]
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=2 * WAIT, check=False
        )
        if done.returncode:
            said = done.stderr.decode()
            names = [name for text, name in ERRORS.items() if text in said]
            raise Refused(names[0] if names else said)
        return done.stdout

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
        how = (
            "-P", "-t", topic, "-p", str(partition), "-z", codec, "-K", KEY_END.decode(),
            "-D", MESSAGES_END.decode(),
            "-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}",
            "-X", f"message.max.bytes={REQUEST_BYTES_MAX}", "-X", "linger.ms=50",
        )  # fmt: skip
        lines = [self._line(each) for each in messages]
        # What is said of a message is said of all of a run.
        for said, alike in groupby(lines, key=itemgetter(0)):
            data = MESSAGES_END.join(line for _, line in alike)
            self._run(*how, *said, data=data)

    def _line(self, message: Sent) -> tuple[list[str], bytes]:
        """What to say of it, and what to send."""
        if message.timestamp is not None:
            self.lacks("set timestamps")
        key, value = message.key, message.value
        said = [] if None not in (key, value) else ["-Z"]
        if said and b"" in (key, value):
            self.lacks("send something empty beside a null")
        for name, content in message.headers:
            if content is not None and not content.isascii():
                self.lacks("send headers that are not text")
            said += ["-H", name if content is None else f"{name}={content.decode()}"]
        return said, (key or b"") + KEY_END + (value or b"")

    def consume(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Found]:
        return self._consume(topic, partition, str(offset))

    def consume_since(self, topic: str, timestamp: int, *, partition: int = 0) -> list[Found]:
        return self._consume(topic, partition, f"s@{timestamp}")

    def _consume(self, topic: str, partition: int, since: str) -> list[Found]:
        where = ("-C", "-t", topic, "-p", str(partition), "-o", since)
        found = self._run(*where, "-e", "-q", "-J", "-X", "receive.message.max.bytes=100000000")
        return [_found(json.loads(line)) for line in found.splitlines()]

    def offset_at(self, topic: str, position: Position, *, partition: int = 0) -> int | None:
        if position == "max timestamp":
            self.lacks("ask for the offset of the latest timestamp")
        when = {"earliest": -2, "latest": -1}.get(str(position), position)
        said = self._run("-Q", "-t", f"{topic}:{partition}:{when}").decode()
        offset = int(said.split()[-1])
        return None if offset < 0 else offset

    def list_topics(self) -> set[str]:
        return {each["topic"] for each in self._metadata()}

    def describe_topics(self, topics: Sequence[str]) -> dict[str, int]:
        found = {each["topic"]: each["partitions"] for each in self._metadata()}
        assert all(each["leader"] >= 0 for name in topics for each in found[name])
        return {name: len(found[name]) for name in topics}

    def _metadata(self) -> list[Any]:
        found: list[Any] = json.loads(self._run("-L", "-J"))["topics"]
        return found


def _found(told: Any) -> Found:
    names, values = told.get("headers", [])[::2], told.get("headers", [])[1::2]
    return Found(
        offset=told["offset"],
        key=_bytes(told["key"]),
        value=_bytes(told["payload"]),
        headers=tuple((name, _bytes(value)) for name, value in zip(names, values, strict=True)),
        timestamp=told["ts"],
        is_append_time=told["tstype"] == "logappend",
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
