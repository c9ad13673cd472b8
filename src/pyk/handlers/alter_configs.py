"""AlterConfigs, v0-2: replace all of a resource's configuration. The legacy way.

Kafka never answers a request that has a resource twice. Here both are refused, as they are in
IncrementalAlterConfigs.
"""

from __future__ import annotations

from pyk.config.changes import replaced
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.config_resources import Edit, Resource, alter
from pyk.handlers.context import Context
from pyk.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, call: Call, broker: Context) -> AlterConfigsResponse:
    edits = [
        (Resource(each.resource_type, each.resource_name), _edit(each))
        for each in request.resources
    ]
    outcomes = await alter(edits, broker, validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=[
            _result(resource, outcome)
            for (resource, _), outcome in zip(edits, outcomes, strict=True)
        ]
    )


def refuse(request: AlterConfigsRequest, refusal: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            _result(Resource(each.resource_type, each.resource_name), refusal)
            for each in request.resources
        ]
    )


def _edit(resource: AlterConfigsResource) -> Edit:
    configs = [(config.name, config.value) for config in resource.configs]
    return Edit(layer=lambda before, key_of: replaced(configs))


def _result(resource: Resource, refusal: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
