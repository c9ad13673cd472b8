"""UnregisterBroker: forget a broker that is gone for good."""

from __future__ import annotations

from pyk.wire.fields import int16, int32, string
from pyk.wire.message import message


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = int32()


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
