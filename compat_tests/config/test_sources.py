"""Properties files read as Java reads them, and variables as Apache's image does."""

from __future__ import annotations

import random
from collections.abc import Callable

from compat_tests.config.java import entries
from pyk.config.properties import parse_properties
from pyk.config.sources import NOT_PROPERTIES, from_environment
from pyk.errors import KafkaError

PIECES = (
    *("a", "b.c", "=", ":", " ", "\t", "\f", "#", "!", "\\", "\\\\", "\n", "\r", "\r\n"),
    *("\\\n", "\\\r\n", "\\\n  ", "\\u0041", "\\u20ac", "\\ud83d\\ude00", "\\ud83d", "\\u12"),
    *("\\t", "\\n", "\\r", "\\f", "\\=", "\\:", "\\ ", "\\x", "é", "€", "\u0085", "\u2028", "\x0b"),
    *("key=value\n", "key", "value", "# comment \\\n", "\n\n"),
)
COUNT = 5000

VARIABLES = (
    "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092\nKAFKA_LISTENERS=PLAINTEXT://:1",
    "KAFKA_NODE_ID=5\nPATH=/bin\nKAFKA=1\nkafka_node_id=6",
    "KAFKA_LISTENER_NAME_INTERNAL_SSL_KEY__STORE=x\nKAFKA_A___B=1\nKAFKA_A____B=1\nKAFKA_A_____B=1",
    "KAFKA_KAFKA_METRICS_REPORTERS=x\nKAFKA_X_KAFKA_Y=2\nKAFKA_=3",
    "KAFKA_BACKSLASH=a\\tb\\\\c\nKAFKA_SPACES=  a  b  \nKAFKA_EMPTY=\nKAFKA_EQUALS=a=b:c",
    "\n".join(f"{name}=1" for name in sorted(NOT_PROPERTIES)),
    "KAFKA_JMX_PORT=1\nKAFKA_CLUSTER_ID=2\nKAFKA_LOG4J_FOO=3",
)


def parsed(text: str) -> dict[str, str] | None:
    try:
        return parse_properties(text)
    except KafkaError:
        return None


def comparable(text: str, properties: dict[str, str] | None) -> dict[str, str] | None:
    """Java takes a lone backslash at the very end for an entry without a name, and pyk does not."""
    if properties is None or not text.rstrip("\r\n").endswith("\\"):
        return properties
    return {name: value for name, value in properties.items() if name}


def test_texts_of_all_sorts_of_pieces_are_read_alike(report: Callable[[str], None]) -> None:
    chance = random.Random(1)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(0, 14))) for _ in range(COUNT)]
    for text, wanted in zip(texts, entries("properties", texts), strict=True):
        assert comparable(text, parsed(text)) == comparable(text, wanted), repr(text)
    report(f"configuration: {COUNT} texts read as java.util.Properties does")


def test_variables_become_the_properties_of_the_image() -> None:
    for text, wanted in zip(VARIABLES, entries("environment", VARIABLES), strict=True):
        environment = dict(line.split("=", 1) for line in text.split("\n"))
        assert from_environment(environment) == wanted
