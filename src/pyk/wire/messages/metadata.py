"""Metadata: the brokers, the topics and who leads what."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, boolean, int16, int32, string, uuid
from pyk.wire.message import message, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string(nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    """None is all topics; so is an empty list in v0, where it means none since v1."""
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10", default=False)
    include_topic_authorized_operations: bool = boolean(versions="8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = int16(default=0)
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, versions="5+", default=[], ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = int16(default=0)
    name: str | None = string(nullable="12+")
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean(versions="1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(versions="8+", default=-(2**31))
    """The smallest int32 where it was not asked for."""


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(versions="8-10", default=-(2**31))
    error_code: int = int16(versions="13+", default=0, ignorable=True)
