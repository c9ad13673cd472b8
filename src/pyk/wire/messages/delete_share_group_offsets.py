"""DeleteShareGroupOffsets: forget a share group's offsets for topics."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, string, uuid
from pyk.wire.message import message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string()


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: Uuid = uuid()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
