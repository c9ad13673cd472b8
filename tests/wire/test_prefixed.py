"""Keys and values of internal topics, and control records, with the two bytes before them."""

from __future__ import annotations

import pytest

from pyk.errors import ProtocolError
from pyk.wire.payloads.classic_group_records import GroupMetadataKey
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue
from pyk.wire.payloads.transaction_records import TransactionLogValue
from pyk.wire.prefixed import (
    ControlType,
    by_record_type,
    decode_control_type,
    decode_key,
    decode_value,
    encode_end_marker,
    encode_key,
    encode_value,
)

KEYS = by_record_type(OffsetCommitKey, GroupMetadataKey)


def test_a_key_starts_with_the_type_of_its_record() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_key(key) == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\3"
    assert decode_key(KEYS, encode_key(key)) == key
    assert decode_key(KEYS, encode_key(GroupMetadataKey(group="g"))) == GroupMetadataKey(group="g")


def test_a_key_of_a_type_that_nobody_knows_is_none() -> None:
    assert decode_key(KEYS, b"\0\x63" + b"whatever") is None


def test_a_value_starts_with_its_version() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=5)
    for version in (3, 4):
        encoded = encode_value(value, version)
        assert encoded[:2] == bytes([0, version])
        assert decode_value(OffsetCommitValue, encoded) == value


def test_a_value_of_a_version_that_nobody_knows_is_refused() -> None:
    for version in (b"\0\2", b"\xff\xff"):
        with pytest.raises(ProtocolError, match="TransactionLogValue has no version"):
            decode_value(TransactionLogValue, version + bytes(50))


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_too_few_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="too few"):
        decode_key(KEYS, data)
    with pytest.raises(ProtocolError, match="too few"):
        decode_control_type(data)


def test_an_end_marker_says_the_outcome_in_its_key() -> None:
    key, value = encode_end_marker(ControlType.COMMIT, coordinator_epoch=9)
    assert (key, value) == (b"\0\0\0\1", b"\0\0\0\0\0\x09")
    assert decode_control_type(key) == ControlType.COMMIT
    assert decode_control_type(b"\0\x07\0\0and more") == ControlType.ABORT
    with pytest.raises(ProtocolError, match="no key"):
        decode_control_type(None)
    with pytest.raises(ProtocolError, match="version -1"):
        decode_control_type(b"\xff\xff\0\1")
