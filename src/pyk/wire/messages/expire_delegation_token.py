"""ExpireDelegationToken: set when a token ends, or end it."""

from __future__ import annotations

from pyk.wire.fields import bytes_, int16, int32, int64
from pyk.wire.message import message


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64()


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = int16(default=0)
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
