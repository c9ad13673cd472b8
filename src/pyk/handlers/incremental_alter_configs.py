"""IncrementalAlterConfigs, v0-1: set, delete, append to or subtract from single values."""

from __future__ import annotations

from pyk.config.changes import Change, altered
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import loggers
from pyk.handlers.call import Call
from pyk.handlers.config_resources import Edit, Resource, alter
from pyk.handlers.context import Context
from pyk.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call, broker: Context
) -> IncrementalAlterConfigsResponse:
    edits = [
        (Resource(each.resource_type, each.resource_name), _edit(each))
        for each in request.resources
    ]
    outcomes = await alter(edits, broker, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[
            _result(resource, outcome)
            for (resource, _), outcome in zip(edits, outcomes, strict=True)
        ]
    )


def refuse(
    request: IncrementalAlterConfigsRequest, refusal: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            _result(Resource(each.resource_type, each.resource_name), refusal)
            for each in request.resources
        ]
    )


def _edit(resource: AlterConfigsResource) -> Edit:
    changes = [
        Change(config.name, config.config_operation, config.value) for config in resource.configs
    ]
    return Edit(
        layer=lambda before, key_of: altered(before, changes, key_of),
        loggers=lambda: loggers.decide(changes),
    )


def _result(resource: Resource, refusal: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
