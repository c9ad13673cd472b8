"""DeleteTopics, v1-6: remove topics, by name or by id."""

from __future__ import annotations

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.deadline import within
from pyk.metadata.topics import TopicReference, delete_topics
from pyk.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


async def handle(request: DeleteTopicsRequest, call: Call, broker: Context) -> DeleteTopicsResponse:
    if not broker.settings.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED
        if not knows_of_disabled_deletion(call):
            code = ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "delete.topic.enable is false.")
    references = _references(request)
    with within(request.timeout_ms):
        outcomes = await broker.carry_out(
            lambda image: delete_topics(image, references), len(references)
        )
    return DeleteTopicsResponse(responses=[_result(*outcome) for outcome in outcomes])


def refuse(request: DeleteTopicsRequest, refusal: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[_result(reference, refusal) for reference in _references(request)]
    )


def knows_of_disabled_deletion(call: Call) -> bool:
    """KIP-322."""
    return call.version >= 3


def _references(request: DeleteTopicsRequest) -> list[TopicReference]:
    by_either = [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    return by_either + [TopicReference(name) for name in request.topic_names]


def _result(reference: TopicReference, refusal: KafkaError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=reference.name,
        topic_id=reference.topic_id,
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
    )
