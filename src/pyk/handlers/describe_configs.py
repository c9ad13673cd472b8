"""DescribeConfigs, v1-4: configuration values, and where they come from.

A resource that is there twice is answered twice. No keys are all keys, and so is an empty list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Final, TypeAlias

from pyk.config.description import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import loggers
from pyk.handlers.call import Call
from pyk.handlers.config_resources import ResourceType, broker_id_of
from pyk.handlers.context import Context
from pyk.metadata.topic_names import check_topic_name
from pyk.turns import Work, answered
from pyk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6
"""A source, beside those of `config.description`."""

Known: TypeAlias = dict[Hashable, list[DescribeConfigsResourceResult]]
"""What resources of the same configuration have in common: thousands of them are mostly alike."""


def handle(
    request: DescribeConfigsRequest, call: Call, broker: Context
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    return answered(_answer(request, broker))


def _answer(request: DescribeConfigsRequest, broker: Context) -> Work[DescribeConfigsResponse]:
    results = []
    known: Known = {}
    for resource in request.resources:
        try:
            configs = _configs(resource, request, broker, known)
        except KafkaError as refusal:
            results.append(_refused(resource, refusal))
        else:
            results.append(_described(resource, configs))
        yield
    return DescribeConfigsResponse(results=results)


def refuse(request: DescribeConfigsRequest, refusal: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_refused(resource, refusal) for resource in request.resources]
    )


def _configs(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    broker: Context,
    known: Known,
) -> list[DescribeConfigsResourceResult]:
    """All of its keys. Raise KafkaError."""
    image, name = broker.image, resource.resource_name
    settings = broker.settings_in(image)

    def once(
        values: Mapping[str, str], describe: Callable[[], Iterable[Entry]], of: str = ""
    ) -> list[DescribeConfigsResourceResult]:
        key = resource.resource_type, of, frozenset(values.items())
        if key not in known:
            known[key] = [_config(entry, request) for entry in describe()]
        return known[key]

    match resource.resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics:
                # Kafka has no words for this one.
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            values = image.topic_config(name).values
            return once(values, lambda: describe_topic(settings, values))
        case ResourceType.BROKER if name == "":
            return once({}, lambda: describe_cluster_defaults(settings), name)
        case ResourceType.BROKER:
            _check_is_here(name, broker)
            return once({}, lambda: describe_broker(settings), name)
        case ResourceType.BROKER_LOGGER:
            _check_is_here(name, broker)
            if resource.resource_type not in known:
                described = loggers.described().items()
                known[resource.resource_type] = [_logger(*each) for each in described]
            return known[resource.resource_type]
        case ResourceType.GROUP if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        case ResourceType.GROUP:
            values = image.group_config(name).values
            return once(values, lambda: describe_group(settings, values))
        case ResourceType.CLIENT_METRICS if name == "":
            message = "Client metrics subscription name must not be empty"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        case ResourceType.CLIENT_METRICS:
            values = image.client_metrics_config(name).values
            return once(values, lambda: describe_client_metrics(values))
        case unknown:
            message = f"Resources of type {unknown} have no configuration here."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_is_here(name: str, broker: Context) -> None:
    if broker_id_of(name) != broker.node_id:
        message = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _described(
    resource: DescribeConfigsResource, configs: list[DescribeConfigsResourceResult]
) -> DescribeConfigsResult:
    keys = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[config for config in configs if config.name in keys] if keys else configs,
    )


def _logger(name: str, level: str) -> DescribeConfigsResourceResult:
    # That it has no type and empty words, and no null, is as in Kafka.
    return DescribeConfigsResourceResult(
        name=name,
        value=level,
        read_only=False,
        config_source=DYNAMIC_BROKER_LOGGER_CONFIG,
        is_sensitive=False,
    )


def _config(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, refusal: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
