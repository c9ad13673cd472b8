"""IncrementalAlterConfigs: set, delete, append to or subtract from single configuration values."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
