"""Kafka's own codec, in a Java process that answers line by line.

The JSON of the generated converters: keys are `Field.json_name`; bytes and records are padded
base64, uuids Kafka's unpadded URL-safe one; a float64 has a point; a lone surrogate becomes "?".
Every field of the version must be there, ignorable or not, unless it is tagged; a field of other
versions may be, and is refused unless it is ignorable or at its default. Other keys are ignored.
Coming back, a tagged field is there only if it differs from its default, a field of other versions
never, and unknown tagged fields are lost. The converters write records as empty: the Java side
puts the real ones in. The records of coordinators are encoded without their leading int16.
"""

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, NamedTuple, Self, TypeAlias, cast

import msgspec

from compat_tests.kafka import jars

SOURCE = Path(__file__).with_name("MessageOracle.java")
JVM = ("-Xmx512m",)
CLOSE_TIMEOUT = 10.0

Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
TimestampType: TypeAlias = Literal["CreateTime", "LogAppendTime"]
Value: TypeAlias = Mapping[str, object]
"""A message in the JSON of Kafka's converters."""


class OracleError(Exception):
    """Java threw. The oracle goes on."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(exception, message)
        self.exception = exception
        """The name of the class, with its package."""
        self.message = message


class OracleDied(Exception):
    """The Java process ended. The message carries the end of its stderr."""


class Encode(NamedTuple):
    name: str
    version: int
    value: Value


class Decode(NamedTuple):
    name: str
    version: int
    data: bytes


class Decoded(NamedTuple):
    value: dict[str, object]
    bytes_read: int


class MessageVersions(NamedTuple):
    api_key: int | None
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record to be built, or as it was read."""

    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int | None = None
    """None when building: one more than the record before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as Kafka read it, its checksum and every record found valid."""

    magic: int
    base_offset: int
    last_offset: int
    size_bytes: int
    partition_leader_epoch: int
    compression: Compression
    timestamp_type: TimestampType
    max_timestamp: int
    delete_horizon_ms: int | None
    transactional: bool
    control: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    count: int
    records: tuple[Record, ...]


class Oracle:
    """The process, from entering the context to leaving it. Not for several threads at once.

    Raises `jars.Missing` on entering, and `OracleDied` from any call if the process has ended.
    """

    def __enter__(self) -> Self:
        command = jars.java_command("MessageOracle", jvm=JVM, classes=jars.compiled(SOURCE))
        self._stderr: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def encode(self, name: str, version: int, value: Value) -> bytes:
        """The bytes of a message, without header or length. Raises `OracleError`."""
        return _bytes(self._ask(_encode_request(name, version, value)))

    def decode(self, name: str, version: int, data: bytes) -> Decoded:
        """The message at the start of `data`, and where it ends. Raises `OracleError`."""
        return _decoded(self._ask(_decode_request(name, version, data)))

    def encode_many(self, messages: Iterable[Encode]) -> list[bytes | OracleError]:
        """As `encode`, many at once: one result for each, in order, errors among them."""
        answers = self._ask_many([_encode_request(*message) for message in messages])
        return [a if isinstance(a, OracleError) else _bytes(a) for a in answers]

    def decode_many(self, messages: Iterable[Decode]) -> list[Decoded | OracleError]:
        """As `decode`, many at once: one result for each, in order, errors among them."""
        answers = self._ask_many([_decode_request(*message) for message in messages])
        return [a if isinstance(a, OracleError) else _decoded(a) for a in answers]

    def default(self, name: str, version: int) -> dict[str, object]:
        """A new instance of the generated class, nothing set."""
        return _object(self._ask({"op": "default", "name": name, "version": version}))

    def messages(self) -> dict[str, MessageVersions]:
        """Every generated class, by the name of its schema. Four are of tiered storage."""
        return msgspec.convert(self._ask({"op": "messages"}), dict[str, MessageVersions])

    def build_batch(
        self,
        compression: Compression,
        records: Iterable[Record],
        *,
        level: int | None = None,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        timestamp_type: TimestampType = "CreateTime",
        log_append_time: int = -1,
        partition_leader_epoch: int = -1,
        delete_horizon_ms: int = -1,
    ) -> bytes:
        """One batch of magic 2, as Kafka's producer and log cleaner write it."""
        request = {
            "op": "build",
            "compression": compression,
            "records": msgspec.to_builtins(list(records)),
            "level": level,
            "base_offset": base_offset,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
            "transactional": transactional,
            "control": control,
            "timestamp_type": timestamp_type,
            "log_append_time": log_append_time,
            "partition_leader_epoch": partition_leader_epoch,
            "delete_horizon_ms": delete_horizon_ms,
        }
        return _bytes(self._ask(request))

    def build_end_transaction_marker(
        self,
        *,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        timestamp: int,
        coordinator_epoch: int = 0,
        base_offset: int = 0,
        partition_leader_epoch: int = -1,
    ) -> bytes:
        """The control batch that ends a transaction in a partition."""
        request = {
            "op": "marker",
            "commit": commit,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "timestamp": timestamp,
            "coordinator_epoch": coordinator_epoch,
            "base_offset": base_offset,
            "partition_leader_epoch": partition_leader_epoch,
        }
        return _bytes(self._ask(request))

    def read_batches(self, data: bytes) -> list[Batch]:
        """All whole batches of `data`, each found valid. Raises `OracleError`.

        As Kafka does in a fetch response, a batch cut off at the end is passed over.
        """
        return msgspec.convert(self._ask({"op": "read", "bytes": _text(data)}), list[Batch])

    def read_batch(self, data: bytes) -> Batch:
        """The one batch that `data` is, to its last byte. Raises `OracleError`."""
        batches = self.read_batches(data)
        assert [batch.size_bytes for batch in batches] == [len(data)], "not exactly one whole batch"
        return batches[0]

    def _ask(self, request: Value) -> object:
        self._write(_line(request))
        answer = self._answer()
        if isinstance(answer, OracleError):
            raise answer
        return answer

    def _ask_many(self, requests: Sequence[Value]) -> list[object | OracleError]:
        # Both pipes are short, so a thread fills the one while this one empties the other.
        lines = b"".join(_line(request) for request in requests)
        writer = threading.Thread(target=self._write, args=(lines,))
        writer.start()
        try:
            return [self._answer() for _ in requests]
        except BaseException:
            self._process.kill()  # Or the writer waits for ever for answers to be taken.
            raise
        finally:
            writer.join()

    def _write(self, lines: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # The reader finds the same end, and reports it.
            self._process.stdin.write(lines)
            self._process.stdin.flush()

    def _answer(self) -> object | OracleError:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OracleDied(self._last_words())
        answer = json.loads(line)
        return answer["ok"] if "ok" in answer else OracleError(answer["error"], answer["message"])

    def _last_words(self) -> str:
        status = self._process.wait(CLOSE_TIMEOUT)
        self._stderr.seek(0)
        return f"ended with {status}: {self._stderr.read()[-4096:].decode(errors='replace')}"


def _line(request: Value) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _encode_request(name: str, version: int, value: Value) -> Value:
    return {"op": "encode", "name": name, "version": version, "value": value}


def _decode_request(name: str, version: int, data: bytes) -> Value:
    return {"op": "decode", "name": name, "version": version, "bytes": _text(data)}


def _decoded(answer: object) -> Decoded:
    fields = _object(answer)
    return Decoded(_object(fields["value"]), cast("int", fields["read"]))


def _object(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: object) -> bytes:
    assert isinstance(text, str), text
    return base64.b64decode(text)
