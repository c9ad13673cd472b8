"""ListConfigResources: the names that have configurations of their own."""

from __future__ import annotations

from pyk.wire.fields import array, int8, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array(int8, versions="1+", default=[])


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8(versions="1+", default=16, ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    config_resources: list[ConfigResource] = array(ConfigResource)
