"""A broker's configuration as it is written down: where `pyk serve` looks, the weakest first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyk.config.properties import parse_properties
from pyk.config.sources import from_environment, from_options

BUILT_IN: Final = {"log.dirs": "data", "listeners": "PLAINTEXT://localhost:9092"}
"""Where `pyk serve` differs from Kafka, which has no default for these that suits a first try."""


class Place(NamedTuple):
    name: str
    values: Mapping[str, str]


def places(
    config: Path | None, options: Sequence[str], environment: Mapping[str, str] | None = None
) -> list[Place]:
    """Raise KafkaError for what cannot be read."""
    found = [Place("pyk serve", BUILT_IN)]
    if config is not None:
        found.append(Place(str(config), parse_properties(config.read_text("latin-1"))))
    found.append(Place("KAFKA_*", from_environment(environment or os.environ)))
    found.append(Place("-o", from_options(options)))
    return found
