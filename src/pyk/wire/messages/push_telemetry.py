"""PushTelemetry: a client's metrics (KIP-714)."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import boolean, bytes_, int8, int16, int32, uuid
from pyk.wire.message import message


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytes_()


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
