"""Where a broker's configuration is written: files, `KAFKA_*` variables, and `-o key=value`.

file < environment < options        what comes later wins
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from pyk.config.broker import BROKER_KEYS, INTERNAL_KEYS
from pyk.config.others import OTHER_NAMES, OTHER_PREFIXES
from pyk.config.properties import parse_properties
from pyk.config.values import trim
from pyk.errors import ErrorCode, KafkaError

PREFIX: Final = "KAFKA_"

NOT_PROPERTIES: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables that Apache's image keeps for its scripts and its JVM."""

_HOST: Final = r"://[^,]*:(?=-?[0-9])"


class Gathered(Struct, frozen=True, kw_only=True):
    """What all sources say together, and what is to be said about it."""

    values: Mapping[str, str]
    unknown: tuple[str, ...]
    """Names that Kafka does not have either."""
    without_effect: tuple[str, ...]
    """Names that Kafka has, and pyk has no use for."""

    @property
    def warning(self) -> str | None:
        """One sentence that names every key which does nothing, or None."""
        parts = []
        if self.unknown:
            parts.append(f"unknown: {', '.join(self.unknown)}")
        if self.without_effect:
            parts.append(f"without effect in pyk: {', '.join(self.without_effect)}")
        return f"Configuration that does nothing ({'; '.join(parts)})." if parts else None


def gather(*sources: Mapping[str, str]) -> Gathered:
    """The sources in one, the later over the earlier."""
    values: dict[str, str] = {}
    for source in sources:
        values.update(source)
    unknown = {name for name in values if not is_known(name)}
    without_effect = {name for name in values if name not in unknown and not _is_honoured(name)}
    return Gathered(
        values=values,
        unknown=tuple(sorted(unknown)),
        without_effect=tuple(sorted(without_effect)),
    )


def is_known(name: str) -> bool:
    """Whether Kafka 4.3 has a broker's key of this name, if pyk has it or not."""
    if name in BROKER_KEYS or name in INTERNAL_KEYS:
        return True
    return name in OTHER_NAMES or name.startswith(OTHER_PREFIXES)


def _is_honoured(name: str) -> bool:
    return name in INTERNAL_KEYS or (name in BROKER_KEYS and BROKER_KEYS[name].honoured)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties in `KAFKA_*` variables, under the rules of Apache's image.

    One underscore is a dot, two are an underscore, three a dash. The image writes the values into
    a properties file as they are, so a backslash in one is an escape. Where only the advertised
    listeners are given it listens on their ports; here that is on every address, old and new.
    """
    lines = [
        f"{_property_name(variable)}={value}"
        for variable, value in environment.items()
        if variable.startswith(PREFIX) and variable not in NOT_PROPERTIES
    ]
    properties = parse_properties("\n".join(lines))
    advertised = properties.get("advertised.listeners")
    if advertised and not properties.get("listeners"):
        properties["listeners"] = re.sub(_HOST, "://:", advertised)
    return properties


def _property_name(variable: str) -> str:
    plain = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return plain.replace("...", "-").replace("..", "_")


def from_options(pairs: Iterable[str]) -> dict[str, str]:
    """The properties in `key=value` pairs. Raises `KafkaError` for one without an equals sign."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not trim(name):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{pair!r} is not of the form key=value.")
        found[trim(name)] = trim(value)
    return found
