"""Committed offsets on `__consumer_offsets`."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import int32, int64, string, uuid
from pyk.wire.message import message


@message(record_type=0, versions="0")
class LegacyOffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(record_type=0, versions="0")
class LegacyOffsetCommitValue:
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


@message(record_type=1, versions="0")
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(record_type=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = uuid(versions="4+", default=ZERO_UUID, tag=0, ignorable=True)
