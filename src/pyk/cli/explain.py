"""What `pyk serve` would make of a key: every place that says something of it, the strongest first.

A key of topics is explained by the broker's keys that give its default.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyk.cli.static import places
from pyk.config.broker import BROKER_KEYS, broker_key, spellings
from pyk.config.description import DEFAULTS
from pyk.config.keys import Update
from pyk.config.settings import BrokerSettings
from pyk.config.sources import gather, is_known
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import format_value
from pyk.errors import ErrorCode, KafkaError


def explain_static(name: str, config: Path | None, options: Sequence[str]) -> dict[str, Any]:
    """Raise KafkaError if there is no such key, or a value is not what its key asks for."""
    found = places(config, options)
    settings = BrokerSettings(gather(*(place.values for place in found)).values)
    of_topics = TOPIC_KEYS.get(name)
    key = broker_key(name) or of_topics
    if key is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Kafka has {name}, but pyk has no use for it"
            if is_known(name)
            else f"there is no setting {name}",
        )
    inherited = () if name in BROKER_KEYS or of_topics is None else of_topics.broker
    names = dict.fromkeys(
        spelling for each in (inherited or (name,)) for spelling in spellings(each)
    )
    synonyms = [
        {
            "name": spelling,
            "value": None if key.is_sensitive else place.values[spelling],
            "source": place.name,
        }
        for place in reversed(found)
        for spelling in names
        if spelling in place.values
    ]
    synonyms += [
        {"name": spelling, "value": DEFAULTS[spelling], "source": "default"}
        for spelling in names
        if spelling in DEFAULTS
    ]
    owner = settings.topic_defaults if inherited else settings.config
    value = format_value(getattr(owner, key.attribute, key.default))
    return {
        "key": name,
        "value": None if key.is_sensitive else value,
        "source": next(
            (s["source"] for s in synonyms if inherited or s["name"] == name), "default"
        ),
        "type": key.type.name,
        "read_only": not inherited and key.update is Update.READ_ONLY,
        "sensitive": key.is_sensitive,
        "documentation": key.documentation,
        "synonyms": synonyms,
    }
