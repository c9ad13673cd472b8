"""CreateTopics, v2-7: make topics, with their partitions and configurations.

A name that is there twice is answered once, and refused. What is only validated is answered in the
same way, with an id that no topic will have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyk.config.changes import created
from pyk.config.checks import check_topic
from pyk.config.description import describe_topic
from pyk.config.settings import BrokerSettings
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.deadline import within
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage
from pyk.metadata.topics import (
    CreatedTopic,
    Creation,
    NewTopic,
    TopicDefaults,
    create_topics,
)
from pyk.turns import Work, in_turns
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(request: CreateTopicsRequest, call: Call, broker: Context) -> CreateTopicsResponse:
    def decide(image: ClusterImage) -> Plan[list[Creation]]:
        settings = broker.settings_in(image)
        defaults = TopicDefaults(
            partitions=settings.config.num_partitions,
            replication_factor=settings.config.default_replication_factor,
        )
        topics = [_wanted(topic, settings) for topic in request.topics]
        return create_topics(image, topics, defaults, broker.rng)

    with within(request.timeout_ms):
        size = sum(max(each.num_partitions, len(each.assignments), 1) for each in request.topics)
        if request.validate_only:
            outcomes = await broker.validate(decide, size)
        else:
            outcomes = await broker.carry_out(decide, size)
    return await in_turns(_answer(outcomes, broker))


def _answer(outcomes: list[Creation], broker: Context) -> Work[CreateTopicsResponse]:
    describe = _described_once(broker.settings_in(broker.image))
    results = []
    for name, outcome in outcomes:
        results.append(
            _refused(name, outcome)
            if isinstance(outcome, KafkaError)
            else _created(name, outcome, describe(outcome.configs))
        )
        yield
    return CreateTopicsResponse(topics=results)


def refuse(request: CreateTopicsRequest, refusal: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refused(topic.name, refusal) for topic in request.topics])


def _wanted(topic: CreatableTopic, settings: BrokerSettings) -> NewTopic:
    configs: Mapping[str, str] | KafkaError
    try:
        configs = created((config.name, config.value) for config in topic.configs)
        check_topic(configs, settings)
    except KafkaError as refusal:
        configs = refusal
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((each.partition_index, each.broker_ids) for each in topic.assignments),
        configs=configs,
    )


def _described_once(
    settings: BrokerSettings,
) -> Callable[[Mapping[str, str]], list[CreatableTopicConfigs]]:
    """Describes configurations. A thousand topics that are made alike share one description."""
    known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def describe(configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        own = frozenset(configs.items())
        if own not in known:
            known[own] = _described(configs, settings)
        return known[own]

    return describe


def _described(configs: Mapping[str, str], settings: BrokerSettings) -> list[CreatableTopicConfigs]:
    entries = describe_topic(settings, configs)
    return [
        CreatableTopicConfigs(
            name=entry.name,
            # As it was written, while DescribeConfigs shows what it means.
            value=configs.get(entry.name, entry.value),
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]


def _created(
    name: str, topic: CreatedTopic, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )


def _refused(name: str, refusal: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refusal.code, error_message=refusal.message, configs=[]
    )
