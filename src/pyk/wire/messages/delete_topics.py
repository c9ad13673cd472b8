"""DeleteTopics: remove topics, by name or by id."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, int16, int32, string, uuid
from pyk.wire.message import message, struct


@struct
class DeleteTopicState:
    name: str | None = string(versions="6+", nullable="6+", default=None)
    topic_id: Uuid = uuid(versions="6+", default=ZERO_UUID)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+", default=[])
    topic_names: list[str] = array(string, versions="0-5", default=[], ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: Uuid = uuid(versions="6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
