"""OffsetFetch: how far groups have read."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, boolean, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class OffsetFetchRequestTopic:
    name: str = string(versions="0-7", default="")
    partition_indexes: list[int] = array(int32, versions="0-7", default=[])


@struct
class OffsetFetchRequestTopics:
    name: str = string(versions="8-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array(int32, versions="8+", default=[])


@struct
class OffsetFetchRequestGroup:
    group_id: str = string(versions="8+", default="")
    member_id: str | None = string(versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, versions="8+", nullable="8+", default=[]
    )


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: str = string(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, versions="0-7", nullable="2-7", default=[]
    )
    groups: list[OffsetFetchRequestGroup] = array(
        OffsetFetchRequestGroup, versions="8+", default=[]
    )
    require_stable: bool = boolean(versions="7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = int32(versions="0-7", default=0)
    committed_offset: int = int64(versions="0-7", default=0)
    committed_leader_epoch: int = int32(versions="5-7", default=-1, ignorable=True)
    metadata: str | None = string(versions="0-7", nullable="0-7", default="")
    error_code: int = int16(versions="0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    name: str = string(versions="0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, versions="0-7", default=[]
    )


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = int32(versions="8+", default=0)
    committed_offset: int = int64(versions="8+", default=0)
    committed_leader_epoch: int = int32(versions="8+", default=-1, ignorable=True)
    metadata: str | None = string(versions="8+", nullable="8+", default="")
    error_code: int = int16(versions="8+", default=0)


@struct
class OffsetFetchResponseTopics:
    name: str = string(versions="8-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(
        OffsetFetchResponsePartitions, versions="8+", default=[]
    )


@struct
class OffsetFetchResponseGroup:
    group_id: str = string(versions="8+", default="")
    topics: list[OffsetFetchResponseTopics] = array(
        OffsetFetchResponseTopics, versions="8+", default=[], often_same=True
    )
    error_code: int = int16(versions="8+", default=0)


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(
        OffsetFetchResponseTopic, versions="0-7", default=[]
    )
    error_code: int = int16(versions="2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(
        OffsetFetchResponseGroup, versions="8+", default=[]
    )
