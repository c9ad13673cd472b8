"""SaslAuthenticate: one step of a SASL exchange."""

from __future__ import annotations

from pyk.wire.fields import bytes_, int16, int64, string
from pyk.wire.message import message


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = bytes_()


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64(versions="1+", default=0, ignorable=True)
