"""Configurations of topics, brokers and groups: described and changed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """What has a configuration. A broker without a name is the default of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()}/{self.name or 'default'}"


class Operation(IntEnum):
    SET = 0
    UNSET = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    key: str
    operation: Operation
    value: str | None = None


class ConfigSource(IntEnum):
    """Where a value is from, as DescribeConfigs numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


def describe_configs(
    cluster: Cluster,
    resource: Resource,
    keys: Sequence[str] | None = None,
    *,
    is_explained: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """Values in the order of their names; with synonyms and documentation if it is explained.
    Raise KafkaError."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if keys is None else list(keys),
            )
        ],
        include_synonyms=is_explained,
        include_documentation=is_explained,
    )
    answer = cluster.ask(request, DescribeConfigsResponse, of=partial(_asked, cluster, resource))
    (result,) = answer.results
    if result.error_code:
        raise _refused(resource, result.error_code, result.error_message)
    return sorted(result.configs, key=lambda config: config.name)


def alter_configs(
    cluster: Cluster, resource: Resource, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Raise KafkaError if any of the changes is refused: then none is made."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    of_resource = partial(_asked, cluster, resource)
    answer = cluster.ask(request, IncrementalAlterConfigsResponse, of=of_resource)
    (result,) = answer.responses
    if result.error_code:
        raise _refused(resource, result.error_code, result.error_message)


def _refused(resource: Resource, number: int, message: str | None) -> KafkaError:
    code = ErrorCode(number)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = f"there is no {resource}"
    return KafkaError(code, message or f"{resource}: {code.name}")


def _asked(cluster: Cluster, resource: Resource) -> Connection:
    """A broker speaks for itself; for the rest any will do."""
    is_of_a_broker = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if is_of_a_broker and resource.name:
        if not resource.name.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not the number of a broker"
            )
        return cluster.broker(int(resource.name))
    return cluster.controller()
