"""Metadata, v0-13: the brokers, the topics and who leads what.

A topic that is asked for and not there is made, if client and configuration allow it, and is in the
same answer. Kafka makes it too, but answers that it is unknown, and the client asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.automatic_topics import make_topics
from pyk.handlers.call import Call, Peer
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.handlers.operations import ALL_OF_CLUSTER, ALL_OF_TOPIC, NOT_ASKED_FOR
from pyk.metadata.image import Broker, Topic
from pyk.metadata.records import NO_LEADER, PartitionState
from pyk.metadata.topic_names import check_topic_name
from pyk.turns import Work, answered, in_turns
from pyk.types import ZERO_UUID
from pyk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def handle(
    request: MetadataRequest, call: Call, broker: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if wants_all(request, call):
        topics = list(broker.image.topics.values())
        return answered(_answer(request, call, broker, topics, []))
    asked = request.topics or []
    if not finds_topics_by_id(call) and any(
        topic.topic_id != ZERO_UUID or topic.name is None for topic in asked
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"v{call.version} finds topics by name only")
    missing = _missing(request, call, broker)
    if missing:
        return _create_and_answer(request, call, broker, missing)
    return answered(_answer_asked(request, call, broker))


def refuse(request: MetadataRequest, refusal: KafkaError) -> MetadataResponse:
    topics = [_refused(topic, refusal) for topic in request.topics or []]
    return MetadataResponse(brokers=[], topics=topics, error_code=refusal.code)


def wants_all(request: MetadataRequest, call: Call) -> bool:
    """In v0 no topics are all topics, since then null is."""
    return request.topics is None or (call.version == 0 and not request.topics)


def finds_topics_by_id(call: Call) -> bool:
    """KIP-516, which had ids in the request two versions before it used them."""
    return call.version >= 12


def _missing(request: MetadataRequest, call: Call, broker: Context) -> list[str]:
    """The topics to be made."""
    is_allowed = request.allow_auto_topic_creation or call.version < 4
    if not is_allowed or not broker.settings.config.auto_create_topics_enable:
        return []
    names = [topic.name for topic in request.topics or [] if topic.topic_id == ZERO_UUID]
    found = []
    for name in dict.fromkeys(names):
        if name is None or name in broker.image.topics:
            continue
        try:
            check_topic_name(name)
        except KafkaError:
            continue
        found.append(name)
    return found


async def _create_and_answer(
    request: MetadataRequest, call: Call, broker: Context, missing: Sequence[str]
) -> MetadataResponse:
    refused = await make_topics(missing, broker)
    return await in_turns(_answer_asked(request, call, broker, refused))


def _answer_asked(
    request: MetadataRequest,
    call: Call,
    broker: Context,
    refusals: dict[str, KafkaError] | None = None,
) -> Work[MetadataResponse]:
    found: list[Topic] = []
    others: list[MetadataResponseTopic] = []
    for asked in dict.fromkeys((topic.name, topic.topic_id) for topic in request.topics or []):
        name, topic_id = asked
        yield
        try:
            if topic_id != ZERO_UUID:
                found.append(broker.topic_of_id(topic_id))
            elif name is None:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "neither a name nor an id")
            else:
                check_topic_name(name)
                found.append(broker.topic_named(name))
        except KafkaError as refusal:
            code = (refusals or {}).get(name or "", refusal).code
            others.append(
                MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    topic_id=topic_id,
                    is_internal=name in INTERNAL_TOPICS,
                    partitions=[],
                    topic_authorized_operations=NOT_ASKED_FOR,
                )
            )
    return (yield from _answer(request, call, broker, found, others))


def _answer(
    request: MetadataRequest,
    call: Call,
    broker: Context,
    topics: Sequence[Topic],
    others: Sequence[MetadataResponseTopic],
) -> Work[MetadataResponse]:
    image = broker.image
    operations = ALL_OF_TOPIC
    if not request.include_topic_authorized_operations:
        operations = NOT_ASKED_FOR
    described = []
    for topic in topics:
        described.append(_topic(topic, operations))
        yield
    return MetadataResponse(
        brokers=[
            _broker(each, call.peer, broker) for each in image.brokers.values() if not each.fenced
        ],
        cluster_id=image.cluster_id,
        controller_id=broker.node_id,
        topics=[*others, *described],
        cluster_authorized_operations=(
            ALL_OF_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )


def _broker(each: Broker, peer: Peer, broker: Context) -> MetadataResponseBroker:
    host, port = broker.address_of(each, peer)
    return MetadataResponseBroker(node_id=each.broker_id, host=host, port=port, rack=each.rack)


def _topic(topic: Topic, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(number, state) for number, state in enumerate(topic.partitions)],
        topic_authorized_operations=operations,
    )


def _partition(number: int, state: PartitionState) -> MetadataResponsePartition:
    is_led = state.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
    )


def _refused(topic: MetadataRequestTopic, refusal: KafkaError) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=refusal.code, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
    )
