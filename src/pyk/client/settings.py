"""How a client is configured: the few of Kafka's client keys that this one has.

What it does not know it refuses by name: a key that does nothing is worse than an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyk.client.address import Address, parse_addresses
from pyk.errors import ErrorCode, KafkaError

SECURITY_PREFIXES: Final = ("ssl.", "sasl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = "pyk"
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    """How long one answer may take."""
    patience: float = 15.0
    """How long to try again what may yet succeed, such as to find a new leader."""


_SECONDS: Final = {
    "socket.connection.setup.timeout.ms": "connect_timeout",
    "request.timeout.ms": "request_timeout",
    "default.api.timeout.ms": "patience",
}
KEYS: Final = ("bootstrap.servers", "client.id", "security.protocol", *_SECONDS)


def read_settings(bootstrap: str, properties: Mapping[str, str]) -> ClientSettings:
    """The settings that these properties make. Raise KafkaError, which names the key."""
    unknown = sorted(name for name in properties if name not in KEYS)
    if secure := [name for name in unknown if name.startswith(SECURITY_PREFIXES)]:
        raise _invalid(f"{', '.join(secure)}: TLS and SASL are not supported yet")
    if unknown:
        raise _invalid(f"unknown: {', '.join(unknown)}; there are {', '.join(KEYS)}")
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise _invalid(f"security.protocol={protocol} is not supported yet, only PLAINTEXT is")
    limits = {
        field: _seconds(name, properties[name])
        for name, field in _SECONDS.items()
        if name in properties
    }
    return ClientSettings(
        bootstrap=parse_addresses(properties.get("bootstrap.servers", bootstrap)),
        client_id=properties.get("client.id", "pyk"),
        **limits,
    )


def _seconds(name: str, text: str) -> float:
    if not text.isdecimal() or int(text) == 0:
        raise _invalid(f"{name}={text} is not a number of milliseconds")
    return int(text) / 1000


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
