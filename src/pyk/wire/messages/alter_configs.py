"""AlterConfigs: replace all of a resource's configuration. The legacy way."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
