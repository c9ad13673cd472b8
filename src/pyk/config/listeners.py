"""Listeners as Kafka writes them: `NAME://host:port`, the security protocol of each name, and
limits of connections by host."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pyk.config.values import ValueType, invalid, parse, trim

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[0-9a-zA-Z\-%._:]*)):(?P<port>-?[0-9]{1,5})"
)
_HOST: Final = r"[0-9a-zA-Z\-%._:]+"


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


def parse_limits_by_host(key: str, text: str) -> dict[str, int]:
    """How many connections each host may have, as host:number with commas. The last colon counts:
    addresses of IPv6 have colons of their own. Raises `KafkaError`."""
    limits = {}
    for pair in filter(None, map(trim, text.split(","))):
        host, colon, number = (trim(part) for part in pair.rpartition(":"))
        if not colon or not re.fullmatch(_HOST, host):
            raise invalid(key, text, f"{pair} is not of the form host:number")
        limit = parse(key, ValueType.INT, number)
        assert isinstance(limit, int)
        if limit < 0:
            raise invalid(key, text, f"the limit of {host} must be at least 0")
        limits[host] = limit
    return limits
