"""SaslHandshake: client and broker agree on a SASL mechanism."""

from __future__ import annotations

from pyk.wire.fields import array, int16, string
from pyk.wire.message import message


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: str = string()


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: int = int16(default=0)
    mechanisms: list[str] = array(string)
