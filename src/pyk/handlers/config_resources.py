"""What has a configuration, and how a request changes that of several at once.

    request -> edit of a resource -> its new layer -> plan \\
    request -> edit of a resource -> its new layer -> plan  > one transaction

A resource that is refused does not hold up the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from pyk.config.broker import broker_key
from pyk.config.changes import KeyOf
from pyk.config.checks import (
    check_broker,
    check_client_metrics,
    check_cluster_defaults,
    check_group,
    check_topic,
)
from pyk.config.keys import Key
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType, parse, trim
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import loggers
from pyk.handlers.context import Context
from pyk.metadata.controller import (
    Plan,
    set_broker_config,
    set_broker_defaults,
    set_client_metrics_config,
    set_group_config,
    set_topic_config,
)
from pyk.metadata.image import ClusterImage
from pyk.metadata.store import Compare, Operation
from pyk.metadata.topic_names import check_topic_name


class ResourceType(IntEnum):
    """As the protocol numbers them."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    type: int
    """As it came: it may be no `ResourceType`."""
    name: str


class Edit(Struct, frozen=True, kw_only=True):
    """What a request makes of a resource. Each raises KafkaError."""

    layer: Callable[[Mapping[str, str], KeyOf], dict[str, str]]
    """All of its configuration, given what it has now, and not yet checked."""
    loggers: Callable[[], dict[str, int]] | None = None
    """The new levels. None if the request cannot change any."""


def broker_id_of(name: str) -> int:
    """Raise KafkaError."""
    try:
        broker_id = parse("broker id", ValueType.INT, name)
    except KafkaError:
        broker_id = None
    if not isinstance(broker_id, int) or trim(name) != name:
        message = f"Broker id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return broker_id


async def alter(
    edits: Sequence[tuple[Resource, Edit]], broker: Context, *, validate_only: bool
) -> list[KafkaError | None]:
    """What came of each. Raise KafkaError."""
    counts = Counter(resource for resource, _ in edits)

    def decide(image: ClusterImage) -> Plan[list[KafkaError | None]]:
        settings = broker.settings_in(image)
        outcomes: list[KafkaError | None] = []
        compares: list[Compare] = []
        operations: list[Operation] = []
        for resource, edit in edits:
            try:
                if counts[resource] > 1:
                    message = "Each resource must appear at most once."
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
                plan = _plan(resource, edit, image, settings, broker.node_id)
            except KafkaError as refusal:
                outcomes.append(refusal)
            else:
                outcomes.append(None)
                compares += plan.compares
                operations += plan.operations
        return Plan(outcomes, compares, operations)

    if validate_only:
        return await broker.validate(decide, len(edits))
    outcomes = await broker.carry_out(decide, len(edits))
    for (resource, edit), refusal in zip(edits, outcomes, strict=True):
        if resource.type == ResourceType.BROKER_LOGGER and refusal is None:
            assert edit.loggers is not None
            loggers.apply(edit.loggers())
    return outcomes


def _plan(
    resource: Resource, edit: Edit, image: ClusterImage, settings: BrokerSettings, node_id: int
) -> Plan[None]:
    match resource:
        case (ResourceType.TOPIC, name):
            values = edit.layer(image.topic_config(name).values, TOPIC_KEYS.get)
            _check_is_named(name, "Default topic resources are not allowed.")
            check_topic_name(name)
            check_topic(values, settings)
            return set_topic_config(image, name, values)
        case (ResourceType.BROKER, ""):
            values = edit.layer(settings.cluster_wide, broker_key)
            check_cluster_defaults(values, settings)
            return set_broker_defaults(image, values)
        case (ResourceType.BROKER, name):
            _check_is_here(name, node_id)
            values = edit.layer(settings.per_broker, broker_key)
            check_broker(values, settings)
            return set_broker_config(image, node_id, values)
        case (ResourceType.BROKER_LOGGER, name) if edit.loggers is not None:
            _check_is_here(name, node_id)
            edit.loggers()
            return Plan(None)
        case (ResourceType.GROUP, name):
            values = edit.layer(image.group_config(name).values, _no_list)
            _check_is_named(name, "Default group resources are not allowed.")
            check_group(values, settings)
            return set_group_config(image, name, values)
        case (ResourceType.CLIENT_METRICS, name):
            values = edit.layer(image.client_metrics_config(name).values, _no_list)
            _check_is_named(name, "A subscription to metrics must have a name.")
            check_client_metrics(values)
            return set_client_metrics_config(image, name, values)
        case (unknown, _):
            message = f"Unknown resource type {unknown}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _no_list(name: str) -> Key | None:
    """Kafka appends to the lists of topics and brokers only."""
    return None


def _check_is_named(name: str, otherwise: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)


def _check_is_here(name: str, node_id: int) -> None:
    # Not by the number alone: 1 and 01 would be two names for one layer.
    if broker_id_of(name) != node_id or name != str(node_id):
        message = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
