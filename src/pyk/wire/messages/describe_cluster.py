"""DescribeCluster: cluster id, controller and brokers."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int8, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(versions="1+", default=1)
    include_fenced_brokers: bool = boolean(versions="2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean(versions="2+", default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8(versions="1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
