"""What a subscription to clients' metrics is configured with (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyk.config.keys import Config, Key, int32, names
from pyk.config.values import Value, trim

CLIENT_PROPERTIES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
INTERVALS_MS: Final = range(100, 3_600_001)


def _patterns(value: Value) -> str | None:
    """Whether each item is a property of clients and a pattern for it. Kafka reads Java's patterns,
    and a few of those are none in Python."""
    assert isinstance(value, tuple)
    for item in value:
        name, *patterns = item.rstrip("=").split("=")
        if trim(name) not in CLIENT_PROPERTIES or len(patterns) != 1:
            return f"{item} is not a property of clients, an equals sign and a pattern"
        try:
            re.compile(trim(patterns[0]))
        except re.error as error:
            return f"{item} has no pattern: {error}"
    return None


class ClientMetricsConfig(Config):
    interval_ms: int = int32(300_000, "How often clients are to send their metrics.")
    metrics: tuple[str, ...] = names(
        (), "What the names of the wanted metrics begin with; * is all of them, nothing is none."
    )
    match: tuple[str, ...] = names(
        (),
        "Which clients are meant, as property=pattern; without any, all of them.",
        rule=_patterns,
    )


CLIENT_METRICS_KEYS: Final[Mapping[str, Key]] = ClientMetricsConfig.KEYS
