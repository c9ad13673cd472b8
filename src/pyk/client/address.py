"""Where a broker is: a host and a port, as bootstrap lists write them."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyk.errors import ErrorCode, KafkaError

DEFAULT_PORT: Final = 9092


class Address(NamedTuple):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`host`, `host:port`, `[::1]:port`, each with or without a protocol before it. Raise
        KafkaError."""
        _, _, plain = text.strip().rpartition("://")
        if plain.startswith("["):
            host, _, rest = plain[1:].partition("]")
            port = rest.removeprefix(":")
        elif plain.count(":") > 1:
            host, port = plain, ""
        else:
            host, _, port = plain.partition(":")
        if not host or not (port or str(DEFAULT_PORT)).isdecimal() or int(port or 0) > 65535:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{text.strip()!r} is not an address of the form host:port",
            )
        return cls(host, int(port or DEFAULT_PORT))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """A list with commas. Raise KafkaError, also for one without any."""
    found = tuple(Address.parse(each) for each in text.split(",") if each.strip())
    if not found:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "there is no bootstrap server")
    return found
