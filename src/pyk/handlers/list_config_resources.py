"""ListConfigResources, v0-1: the names of what has a configuration.

Before v1 it was ListClientMetricsResources, and lists those alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.metadata.image import ClusterImage
from pyk.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(
    request: ListConfigResourcesRequest, call: Call, broker: Context
) -> ListConfigResourcesResponse:
    wanted: Iterable[int] = [ResourceType.CLIENT_METRICS]
    if lists_all_types(call):
        wanted = sorted(set(request.resource_types)) or ResourceType
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in wanted
            for name in _names(resource_type, broker.image)
        ]
    )


def refuse(request: ListConfigResourcesRequest, refusal: KafkaError) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=refusal.code, config_resources=[])


def lists_all_types(call: Call) -> bool:
    """KIP-1142."""
    return call.version >= 1


def _names(resource_type: int, image: ClusterImage) -> list[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return list(image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in image.brokers]
        case ResourceType.CLIENT_METRICS:
            return image.client_metrics
        case ResourceType.GROUP:
            return image.configured_groups
        case unknown:
            message = f"Resources of type {unknown} are not known here."
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
