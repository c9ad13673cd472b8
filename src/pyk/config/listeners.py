"""Listeners as Kafka writes them: `NAME://host:port`, and the security protocol of each name."""

from __future__ import annotations

import re
from typing import Final

from pyk.config.values import invalid, trim
from pyk.declared import NamedTuple

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[0-9a-zA-Z\-%._:]*)):(?P<port>-?[0-9]{1,5})"
)


class Listener(NamedTuple):
    name: str
    host: str
    """Empty for every address."""
    port: int


def parse_listener(key: str, text: str) -> Listener:
    """Raises `KafkaError`, naming the key and the text."""
    found = _LISTENER.fullmatch(trim(text))
    if found is None:
        raise invalid(key, text, "it is not of the form NAME://host:port")
    port = int(found["port"])
    if not 0 <= port <= 65_535:
        raise invalid(key, text, f"{port} is not a port")
    return Listener(found["name"].upper(), found["ipv6"] or found["host"] or "", port)


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """The security protocol of each listener's name. Raises `KafkaError`."""
    protocols = {}
    for pair in filter(None, map(trim, text.split(","))):
        name, _, protocol = (trim(part) for part in pair.partition(":"))
        if not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise invalid(key, text, f"{pair} is not of the form NAME:PROTOCOL")
        if name.upper() in protocols:
            raise invalid(key, text, f"{name} is there twice")
        protocols[name.upper()] = protocol.upper()
    return protocols
