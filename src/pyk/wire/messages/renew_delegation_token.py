"""RenewDelegationToken: let a token live longer."""

from __future__ import annotations

from pyk.wire.fields import bytes_, int16, int32, int64
from pyk.wire.message import message


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = bytes_()
    renew_period_ms: int = int64()


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = int16(default=0)
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
