"""The headers before every request and response."""

from __future__ import annotations

from pyk.wire.fields import int16, int32, string
from pyk.wire.message import message


@message(versions="1-2", flexible="2+")
class RequestHeader:
    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(nullable="0+", compact=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    correlation_id: int = int32()
