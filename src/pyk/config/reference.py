"""The page of all configuration keys, written from their declarations: `make docs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyk.config.broker import BROKER_KEYS, INTERNAL_KEYS
from pyk.config.client_metrics import CLIENT_METRICS_KEYS
from pyk.config.group import GROUP_KEYS
from pyk.config.keys import Key
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import format_value

HEAD: Final = """\
# Configuration

Names and defaults are Kafka's. This page is written by `make docs` from the declarations that
`pyk serve` reads and DescribeConfigs tells.

A broker's values come from, the later over the earlier:

1. `--config FILE`, a server.properties file
2. variables `KAFKA_*`, as Apache's image reads them: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`
3. `-o key=value`, and `--port`, `--host` and `--data-dir`
4. what was set at run time for all brokers, then for one (`pyk config set broker`)

What is unknown, or without effect in pyk, is named in one warning at the start. Keys without effect
are kept and described all the same, so that files and tools made for Kafka work; they are in
*italics* below. `pyk config explain KEY` tells where a value comes from.
"""

SECTIONS: Final[tuple[tuple[str, str, Mapping[str, Key]], ...]] = (
    (
        "Topics",
        "Set with `pyk topic create -c` or `pyk config set topic/NAME`. Without that, the broker's"
        " key gives the default.",
        TOPIC_KEYS,
    ),
    (
        "Brokers",
        "*When* tells whether a key can be set at run time: for one broker, or for all at once.",
        BROKER_KEYS,
    ),
    (
        "Brokers, for tests",
        "As in Kafka, these can be set when a broker starts, and are not described.",
        INTERNAL_KEYS,
    ),
    ("Groups", "Kept for groups that need not exist yet: `pyk config set group/NAME`.", GROUP_KEYS),
    ("Subscriptions to clients' metrics", "Kept, and without effect.", CLIENT_METRICS_KEYS),
)


def page() -> str:
    return HEAD + "".join(_section(*section) for section in SECTIONS)


def _section(title: str, words: str, keys: Mapping[str, Key]) -> str:
    is_broker = keys is BROKER_KEYS or keys is INTERNAL_KEYS
    last = "when" if is_broker else "broker's key"
    head = f"\n## {title}\n\n{words}\n\n| key | default | | {last} |\n|---|---|---|---|\n"
    return head + "".join(_row(key, is_broker) for _, key in sorted(keys.items()))


def _row(key: Key, is_broker: bool) -> str:
    name = f"`{key.name}`" if key.honoured else f"*`{key.name}`*"
    value = format_value(key.default)
    default = f"`{value}`" if value else ""
    last = key.update.value if is_broker else ", ".join(f"`{each}`" for each in key.broker)
    return f"| {name} | {default} | {_words(key.documentation)} | {last} |\n"


def _words(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


if __name__ == "__main__":
    print(page(), end="")
