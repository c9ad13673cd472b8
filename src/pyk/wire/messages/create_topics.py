"""CreateTopics: make topics, with their partitions and configurations."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, boolean, int8, int16, int32, string, uuid
from pyk.wire.message import message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


@struct
class CreatableTopicConfigs:
    name: str = string(versions="5+", default="")
    value: str | None = string(versions="5+", nullable="5+", default="")
    read_only: bool = boolean(versions="5+", default=False)
    config_source: int = int8(versions="5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean(versions="5+", default=False)


@struct
class CreatableTopicResult:
    name: str = string()
    topic_id: Uuid = uuid(versions="7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="", ignorable=True)
    topic_config_error_code: int = int16(versions="5+", default=0, tag=0, ignorable=True)
    num_partitions: int = int32(versions="5+", default=-1, ignorable=True)
    replication_factor: int = int16(versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, versions="5+", nullable="5+", default=[], ignorable=True
    )


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
