"""DescribeConfigs: configuration values, and where they come from."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean(versions="3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(
        DescribeConfigsSynonym, default=[], ignorable=True
    )
    config_type: int = int8(versions="3+", default=0, ignorable=True)
    documentation: str | None = string(versions="3+", nullable="3+", default="", ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(
        DescribeConfigsResourceResult, often_same=True
    )


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
