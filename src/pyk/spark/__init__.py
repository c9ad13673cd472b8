"""pyk and Spark: a session that can read and write topics.

    from pyk.spark import kafka_options, session

    spark = session("orders")
    broker = kafka_options("localhost:9092")
    orders = spark.read.format("kafka").options(**broker).option("subscribe", "orders").load()

A session also reads a broker's data directory, without the broker: `spark.read.format("pyk")`.

It needs PySpark (`pip install 'pyk-broker[spark]'`) and Java. Importing this package imports
neither; the broker never imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyk.spark.sessions import kafka_options, named, register, session
    from pyk.spark.setup import SparkMissing

__all__ = ["SparkMissing", "kafka_options", "named", "register", "session"]

_HOMES = {
    "SparkMissing": "pyk.spark.setup",
    "kafka_options": "pyk.spark.sessions",
    "named": "pyk.spark.sessions",
    "register": "pyk.spark.sessions",
    "session": "pyk.spark.sessions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
