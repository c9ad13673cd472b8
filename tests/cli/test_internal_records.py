"""`pyk log dump` of the topics that coordinators keep."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.types import Uuid
from pyk.wire.payloads.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from pyk.wire.payloads.consumer_group_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from pyk.wire.payloads.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue
from pyk.wire.payloads.transaction_records import TransactionLogKey, TransactionLogValue
from pyk.wire.prefixed import ControlType, encode_end_marker, encode_key, encode_value
from pyk.wire.records import Record, build_batch
from tests.cli.commands import pyk

NOW = 1_700_000_000_000
COMMITTED = encode_key(OffsetCommitKey(group="g", topic="orders", partition=3))
OFFSET = encode_value(OffsetCommitValue(offset=5, metadata="m", commit_timestamp=NOW), 3)

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write keys and values to a partition, each in a batch of its own."""

    def written(partition: str, *pairs: tuple[bytes | None, bytes | None]) -> Path:
        log = Log.open(RealDisk(), tmp_path / partition, LogConfig())
        for key, value in pairs:
            batch = build_batch([Record(0, NOW, key, value)])
            log.append(bytearray(batch), leader_epoch=0, now_ms=NOW)
        log.flush()
        log.close()
        return tmp_path / partition

    return written


def records(path: Path, *options: str) -> list[dict[str, Any]]:
    done = pyk("log", "dump", str(path), "--records", "--format", "json", *options)
    assert (done.code, done.err) == (0, "")
    return [record for line in done.lines for record in json.loads(line)["records"]]


def test_a_commit_is_shown_with_what_its_version_has(write: Write) -> None:
    path = write("__consumer_offsets-0", (COMMITTED, OFFSET), (COMMITTED, None))
    assert records(path) == [
        {
            "offset": 0,
            "timestamp": NOW,
            "type": "OffsetCommit",
            "key": {"group": "g", "topic": "orders", "partition": 3},
            "value": {
                "offset": 5,
                "leader_epoch": -1,
                "metadata": "m",
                "commit_timestamp": NOW,
            },
        },
        {
            "offset": 1,
            "timestamp": NOW,
            "type": "OffsetCommit",
            "key": {"group": "g", "topic": "orders", "partition": 3},
            "value": None,
        },
    ]


def test_a_line_for_people_has_the_kind_and_both_sides(write: Write) -> None:
    path = write("__consumer_offsets-0", (COMMITTED, OFFSET), (COMMITTED, None))
    lines = [line for line in pyk("log", "dump", str(path), "--records").lines if "|" in line]
    key = 'OffsetCommit  {"group":"g","topic":"orders","partition":3}'
    value = f'{{"offset":5,"leader_epoch":-1,"metadata":"m","commit_timestamp":{NOW}}}'
    assert lines == [
        f"  | 0  2023-11-14T22:13:20.000Z  {key}  {value}",
        f"  | 1  2023-11-14T22:13:20.000Z  {key}  -",
    ]


def classic_group(protocol: str) -> tuple[bytes, bytes]:
    assigned = [AssignedPartitions(topic="orders", partitions=[0, 1])]
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=encode_value(ConsumerProtocolSubscription(topics=["orders"]), 0),
        assignment=encode_value(ConsumerProtocolAssignment(assigned_partitions=assigned), 0),
    )
    value = GroupMetadataValue(
        protocol_type=protocol, generation=4, protocol="range", leader="m", members=[member]
    )
    return encode_key(GroupMetadataKey(group="g")), encode_value(value, 3)


def test_what_consumers_gave_their_group_to_keep_is_opened(write: Write) -> None:
    (found,) = records(write("__consumer_offsets-0", classic_group("consumer")))
    assert (found["type"], found["value"]["generation"]) == ("GroupMetadata", 4)
    (member,) = found["value"]["members"]
    assert member["subscription"] == {"topics": ["orders"], "user_data": None}
    assert member["assignment"]["assigned_partitions"] == [
        {"topic": "orders", "partitions": [0, 1]}
    ]


def test_what_others_gave_it_is_bytes(write: Write) -> None:
    (found,) = records(write("__consumer_offsets-0", classic_group("connect")))
    (member,) = found["value"]["members"]
    assert "subscription" not in member
    assert base64.b64decode(member["subscription_base64"]).startswith(b"\0\0\0\0\0\1\0\6orders")


def test_topics_have_the_ids_that_topic_list_prints(write: Write) -> None:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m")
    topic = TopicPartition(topic_id=Uuid(bytes(15) + b"\1"), partitions=[2])
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[topic])
    (found,) = records(write("__consumer_offsets-7", (encode_key(key), encode_value(value, 0))))
    assert found["type"] == "ConsumerGroupTargetAssignmentMember"
    assert found["value"] == {
        "topic_partitions": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [2]}]
    }


def test_transactions_are_decoded_too(write: Write) -> None:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=NOW,
        transaction_start_timestamp_ms=-1,
    )
    key = encode_key(TransactionLogKey(transactional_id="t"))
    (found,) = records(write("__transaction_state-3", (key, encode_value(value, 0))), "-k", "t")
    assert (found["type"], found["key"]) == ("TransactionLog", {"transactional_id": "t"})
    assert (found["value"]["producer_id"], found["value"]["transaction_partitions"]) == (7, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x7f\xffnewer", b"x"),
        (COMMITTED, b"\x7f\xffnewer"),
        (COMMITTED, OFFSET[:-1]),
        (COMMITTED[:-1], OFFSET),
        (b"", b"x"),
        (None, b"x"),
    ],
)
def test_what_is_not_known_is_shown_as_bytes_and_is_no_damage(
    write: Write, key: bytes | None, value: bytes
) -> None:
    (found,) = records(write("__consumer_offsets-0", (key, value)))
    assert "type" not in found
    assert {"key", "key_base64"} & set(found)


def test_raw_bytes_are_there_for_the_asking(write: Write) -> None:
    (found,) = records(write("__consumer_offsets-0", (COMMITTED, OFFSET)), "--raw")
    assert "type" not in found
    assert found["key"].encode() == COMMITTED


def test_records_are_chosen_by_group(write: Write) -> None:
    other = encode_key(OffsetCommitKey(group="h", topic="orders", partition=3))
    path = write("__consumer_offsets-0", (COMMITTED, OFFSET), (other, OFFSET), classic_group("x"))
    found = records(path.parent, "--keys", "g")
    assert [(each["offset"], each["type"]) for each in found] == [
        (0, "OffsetCommit"),
        (2, "GroupMetadata"),
    ]


def test_a_topic_of_users_is_not_decoded_whatever_is_in_it(write: Write) -> None:
    (found,) = records(write("consumer_offsets-0", (COMMITTED, OFFSET)))
    assert "type" not in found


def test_the_end_of_a_transaction_stays_what_it_is(tmp_path: Path) -> None:
    log = Log.open(RealDisk(), tmp_path / "__consumer_offsets-0", LogConfig())
    key, value = encode_end_marker(ControlType.COMMIT, 0)
    batch = build_batch(
        [Record(0, NOW, key, value)],
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    log.append(bytearray(batch), leader_epoch=0, now_ms=NOW)
    log.flush()
    log.close()
    (found,) = records(tmp_path)
    assert found["control"] == "COMMIT"


def test_a_file_is_known_by_the_directory_that_it_is_in(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write("__consumer_offsets-0", (COMMITTED, OFFSET)))
    (found,) = records(Path(f"{0:020}.log"))
    assert found["type"] == "OffsetCommit"
