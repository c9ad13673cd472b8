"""The jars of Spark's Kafka connector, where Spark's own resolver cannot bring them."""

from __future__ import annotations

from pathlib import Path

from compat_tests.kafka import jars
from pyk.spark.setup import installed_spark

BY_HAND = ("4.2.0",)
"""Their connector asks for a token provider of the same version, which not every mirror of Maven
Central has. That of 4.0.0 does as well: it is for delegation tokens."""


def spark_jars() -> list[Path]:
    """Files for `pyk.spark.session`, or none where Spark brings its own."""
    version = installed_spark().text
    if version not in BY_HAND:
        return []
    pom = Path(__file__).with_name("connector.xml")
    wanted = jars.Library(f"spark-connector-{version}", str(pom), (("spark.version", version),))
    return sorted(jars.library(wanted).glob("*.jar"))
