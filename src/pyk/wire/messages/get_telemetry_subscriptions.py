"""GetTelemetrySubscriptions: which of its metrics a client shall push (KIP-714)."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, boolean, int8, int16, int32, string, uuid
from pyk.wire.message import message


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = uuid()


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
