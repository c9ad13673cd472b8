"""The oracle is itself judged: each part by another, and by bytes known from the protocol."""

import base64
import os
import signal
import socket
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from compat_tests.kafka import jars
from compat_tests.kafka.oracle import Compression, Decode, Encode, Oracle, OracleDied, OracleError
from compat_tests.kafka.oracle import Record as R
from compat_tests.kafka.schemas import Field, Schema, Versions
from compat_tests.kafka.server import kafka_server

LEVELS: list[tuple[Compression, int | None]] = [
    ("none", None),
    ("gzip", None),
    ("gzip", 9),
    ("snappy", None),
    ("lz4", None),
    ("lz4", 17),
    ("zstd", None),
    ("zstd", -5),
]
RECORDS = (
    R(offset=7, timestamp=1000, key=b"k", value=b"v" * 500, headers=(("a", b"1"), ("a", None))),
    R(offset=8, timestamp=999, key=None, value=b""),
    R(offset=12, timestamp=1001, key=b"", value=None),
)


def test_every_schema_is_read(known: dict[str, Schema]) -> None:
    print(f"{len(known)} schemas")
    assert len(known) > 240
    assert {schema.type for schema in known.values()} == {
        "request", "response", "header", "data", "coordinator-key", "coordinator-value",
    }  # fmt: skip


def test_fetch_request_is_as_its_schema_says(known: dict[str, Schema]) -> None:
    fetch = known["FetchRequest"]
    fields = {field.name: field for field in fetch.fields}
    assert (fetch.api_key, fetch.listeners) == (1, ("broker", "controller"))
    assert str(fetch.flexible_versions) == "12+"
    assert list(fields)[:4] == ["ClusterId", "ReplicaId", "ReplicaState", "MaxWaitMs"]
    assert (fields["ClusterId"].tag, fields["ClusterId"].default) == (0, None)
    assert fields["MaxBytes"].default == 0x7FFFFFFF
    assert fields["ReplicaState"].default == {"ReplicaId": -1, "ReplicaEpoch": -1}
    assert [field.json_name for field in fields["Topics"].fields] == [
        "topic", "topicId", "partitions",
    ]  # fmt: skip


def test_a_tagged_field_may_leave_its_versions_out(known: dict[str, Schema]) -> None:
    fields = {field.name: field for field in known["TransactionLogValue"].fields}
    assert fields["NextProducerId"].versions == Versions.parse("1+")


def test_removed_messages_have_neither_versions_nor_fields(known: dict[str, Schema]) -> None:
    removed = known["LeaderAndIsrRequest"]
    assert not removed.valid_versions
    assert removed.fields == ()


def test_common_structs_stand_where_they_are_used(known: dict[str, Schema]) -> None:
    configs = known["StreamsGroupMetadataValue"].fields[-1]
    assert [field.name for field in configs.fields] == ["Key", "Value"]
    assert configs.default == []


def test_schemas_and_generated_classes_have_the_same_versions(
    known: dict[str, Schema], oracle: Oracle
) -> None:
    generated = oracle.messages()
    for schema in known.values():
        if schema.valid_versions:
            versions = schema.valid_versions
            expected = (schema.api_key, versions.lowest, versions.highest)
            assert generated[schema.name] == expected, schema.name


def test_schemas_and_generated_classes_have_the_same_defaults(
    known: dict[str, Schema], oracle: Oracle
) -> None:
    for schema in known.values():
        for version in schema.valid_versions:
            expected = defaults(schema.fields, version)
            assert oracle.default(schema.name, version) == expected, (schema.name, version)


def defaults(fields: tuple[Field, ...], version: int) -> dict[str, object]:
    """What the converters make of a new instance: tagged fields are left out at their defaults."""
    there = (f for f in fields if version in f.versions and version not in f.tagged_versions)
    return {field.json_name: in_json(field, version) for field in there}


def in_json(field: Field, version: int) -> object:
    match field.default:
        case dict():
            return defaults(field.fields, version)
        case bytes():
            return base64.b64encode(field.default).decode()
        case uuid.UUID():
            return base64.urlsafe_b64encode(field.default.bytes).decode().rstrip("=")
        case _:
            return field.default


def test_an_api_versions_request_is_the_known_bytes(oracle: Oracle) -> None:
    value = {"clientSoftwareName": "pyk", "clientSoftwareVersion": "1"}
    data = oracle.encode("ApiVersionsRequest", 3, value)
    assert data == b"\x04pyk\x021\x00"
    assert oracle.decode("ApiVersionsRequest", 3, data + b"more") == (value, len(data))


def test_a_metadata_response_comes_back(oracle: Oracle) -> None:
    partition = {
        "errorCode": 0, "partitionIndex": 0, "leaderId": 1, "leaderEpoch": 5,
        "replicaNodes": [1, 2], "isrNodes": [1], "offlineReplicas": [],
    }  # fmt: skip
    topic = {
        "errorCode": 0, "name": "é", "topicId": "AAECAwQFBgcICQoLDA0ODw", "isInternal": False,
        "partitions": [partition], "topicAuthorizedOperations": -2147483648,
    }  # fmt: skip
    broker = {"nodeId": 1, "host": "localhost", "port": 9092, "rack": None}
    value = {
        "throttleTimeMs": 0, "brokers": [broker], "clusterId": None, "controllerId": 1,
        "topics": [topic],
    }  # fmt: skip
    data = oracle.encode("MetadataResponse", 12, value)
    assert bytes(range(16)) in data
    assert oracle.decode("MetadataResponse", 12, data) == (value, len(data))


def test_a_fetch_response_carries_its_records_both_ways(oracle: Oracle) -> None:
    batch = oracle.build_batch("none", RECORDS, base_offset=7)
    partition = {
        "partitionIndex": 0, "errorCode": 0, "highWatermark": 13, "lastStableOffset": 13,
        "logStartOffset": 0, "abortedTransactions": None, "preferredReadReplica": -1,
        "records": base64.b64encode(batch).decode(),
    }  # fmt: skip
    topic = {"topicId": "AAECAwQFBgcICQoLDA0ODw", "partitions": [partition]}
    value = {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [topic]}
    data = oracle.encode("FetchResponse", 16, value)
    assert batch in data
    assert oracle.decode("FetchResponse", 16, data) == (value, len(data))


def test_a_coordinator_record_is_the_known_bytes(oracle: Oracle) -> None:
    value = {"group": "g", "topic": "t", "partition": 3}
    data = oracle.encode("OffsetCommitKey", 0, value)
    assert data == b"\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert oracle.decode("OffsetCommitKey", 0, data).value == value


def test_a_java_exception_comes_back_and_the_oracle_goes_on(oracle: Oracle) -> None:
    with pytest.raises(OracleError) as refused:
        oracle.encode("ApiVersionsRequest", 3, {"clientSoftwareName": "pyk"})
    assert refused.value.exception == "java.lang.RuntimeException"
    assert "clientSoftwareVersion" in refused.value.message
    with pytest.raises(OracleError, match="only 1 byte"):
        oracle.decode("ApiVersionsRequest", 3, b"\x04p")
    with pytest.raises(OracleError, match="UnsupportedVersionException"):
        oracle.encode("ApiVersionsRequest", 99, {})
    assert oracle.encode("ApiVersionsRequest", 0, {}) == b""


def test_a_field_that_an_old_version_lacks_is_refused_unless_ignorable(oracle: Oracle) -> None:
    ignorable = {"clientSoftwareName": "pyk", "clientSoftwareVersion": "1"}
    assert oracle.encode("ApiVersionsRequest", 0, ignorable) == b""
    value = {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": "i"}
    with pytest.raises(OracleError, match="non-default groupInstanceId at version 0"):
        oracle.encode("HeartbeatRequest", 0, value)


def test_many_large_values_pass_without_a_jam(oracle: Oracle) -> None:
    values = [{"authBytes": base64.b64encode(bytes([n % 256]) * n).decode()} for n in range(3000)]
    encoded = oracle.encode_many(Encode("SaslAuthenticateRequest", 0, value) for value in values)
    assert encoded == [struct.pack(">i", n) + bytes([n % 256]) * n for n in range(3000)]
    data = [item for item in encoded if isinstance(item, bytes)]
    decoded = oracle.decode_many(Decode("SaslAuthenticateRequest", 0, item) for item in data)
    assert decoded == [(value, len(item)) for value, item in zip(values, data, strict=True)]


def test_among_many_an_error_stands_in_its_place(oracle: Oracle) -> None:
    good = Decode("HeartbeatResponse", 0, b"\x00\x00")
    first, second, third = oracle.decode_many([good, good._replace(data=b"\x00"), good])
    assert isinstance(second, OracleError)
    assert first == third == ({"errorCode": 0}, 2)


@pytest.mark.usefixtures("known")
def test_a_dead_oracle_says_so() -> None:
    with Oracle() as oracle:
        os.kill(oracle.pid, signal.SIGKILL)
        with pytest.raises(OracleDied, match="ended with -9"):
            oracle.encode("ApiVersionsRequest", 0, {})


@pytest.mark.parametrize(("compression", "level"), LEVELS)
def test_a_batch_comes_back(oracle: Oracle, compression: Compression, level: int | None) -> None:
    data = oracle.build_batch(
        compression, RECORDS, level=level, base_offset=7, partition_leader_epoch=3
    )
    batch = oracle.read_batch(data)
    assert (batch.magic, batch.compression, batch.count) == (2, compression, 3)
    assert (batch.base_offset, batch.last_offset) == (7, 12)
    assert (batch.partition_leader_epoch, batch.max_timestamp) == (3, 1001)
    assert batch.records == RECORDS


def test_a_batch_keeps_what_its_producer_and_the_log_say(oracle: Oracle) -> None:
    data = oracle.build_batch(
        "lz4",
        [R(timestamp=5, value=b"a"), R(timestamp=6, value=b"b")],
        producer_id=42,
        producer_epoch=3,
        base_sequence=10,
        transactional=True,
        timestamp_type="LogAppendTime",
        log_append_time=99,
        delete_horizon_ms=123,
    )
    batch = oracle.read_batch(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (42, 3, 10)
    assert (batch.transactional, batch.control, batch.last_sequence) == (True, False, 11)
    assert (batch.timestamp_type, batch.max_timestamp) == ("LogAppendTime", 99)
    assert batch.delete_horizon_ms == 123
    assert [(r.offset, r.timestamp) for r in batch.records] == [(0, 99), (1, 99)]


def test_a_transaction_marker_is_a_control_batch(oracle: Oracle) -> None:
    data = oracle.build_end_transaction_marker(
        commit=True, producer_id=42, producer_epoch=3, timestamp=5, coordinator_epoch=9
    )
    batch = oracle.read_batch(data)
    assert (batch.transactional, batch.control) == (True, True)
    assert [(r.key, r.value) for r in batch.records] == [(b"\0\0\0\1", b"\0\0\0\0\0\x09")]


def test_a_flipped_bit_is_found_and_a_cut_batch_passed_over(oracle: Oracle) -> None:
    data = oracle.build_batch("none", RECORDS)
    with pytest.raises(OracleError, match="CorruptRecordException"):
        oracle.read_batches(data[:-1] + bytes([data[-1] ^ 1]))
    assert len(oracle.read_batches(data + data[:-1])) == 1


def test_a_missing_java_is_named() -> None:
    code = "from compat_tests.kafka import jars; jars.classpath()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Missing: `java` is not in PATH. Install a JDK of Java 17" in done.stderr


def test_the_server_answers_and_goes_away(oracle: Oracle) -> None:
    with kafka_server({"num.partitions": "3"}) as server:
        with socket.create_connection((server.host, server.port), timeout=10) as connection:
            body = oracle.encode(
                "ApiVersionsRequest", 3, {"clientSoftwareName": "pyk", "clientSoftwareVersion": "1"}
            )
            header = struct.pack(">hhihB", 18, 3, 77, -1, 0)
            connection.sendall(struct.pack(">i", len(header + body)) + header + body)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                reply = stream.read(size)
        assert reply[:4] == struct.pack(">i", 77)
        value, read = oracle.decode("ApiVersionsResponse", 3, reply[4:])
        assert (value["errorCode"], read) == (0, size - 4)
        assert server.data_dir.is_dir()
    assert not server.data_dir.exists()
    assert not Path(f"/proc/{server.pid}").exists()


def test_what_is_made_once_may_need_something_else_that_is_made(tmp_path: Path) -> None:
    """As classes do that are loaded before, on a machine that has no jars yet."""

    def make_outer(directory: Path) -> None:
        made = jars.made_once(tmp_path / "inner", lambda inner: (inner / "jar").touch())
        (directory / "names").write_text(" ".join(each.name for each in made.iterdir()))

    outer = jars.made_once(tmp_path / "outer", make_outer)
    assert (outer / "names").read_text() == "jar"
