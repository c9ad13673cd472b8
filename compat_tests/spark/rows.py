"""Reading topics with Spark: as a table of what there is, and as a stream."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

from compat_tests.spark.topics import Topics
from pyk.spark import kafka_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_names = count()


class Reader:
    """Spark and a broker, and what both are told whatever is read."""

    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self.spark = spark
        self.topics = topics

    def options(self, asked: dict[str, Any]) -> dict[str, str]:
        given = {name: str(value) for name, value in asked.items()}
        return {**kafka_options(self.topics.bootstrap_servers), **given}

    def table(self, **asked: Any) -> DataFrame:
        return self.spark.read.format("kafka").options(**self.options(asked)).load()

    def stream(self, **asked: Any) -> DataFrame:
        return self.spark.readStream.format("kafka").options(**self.options(asked)).load()

    def values(self, **asked: Any) -> list[str]:
        return values(self.table(**asked))

    def begin(self, stream: DataFrame, **trigger: Any) -> Collected:
        """A query that keeps what it finds."""
        return Collected(self.spark, stream, trigger)


class Collected:
    """What a query has found, batch by batch."""

    def __init__(self, spark: SparkSession, stream: DataFrame, trigger: dict[str, Any]) -> None:
        self._spark = spark
        self._name = f"found_{next(_names)}"
        writer = stream.writeStream.format("memory").queryName(self._name)
        self.query: StreamingQuery = (writer.trigger(**trigger) if trigger else writer).start()

    def values(self) -> list[str]:
        """All that there is for it, when it has come to the end."""
        self.query.processAllAvailable()
        return self.so_far()

    def so_far(self) -> list[str]:
        return values(self._spark.table(self._name))

    def at_its_end(self, seconds: float = 120) -> list[str]:
        """All that it has found when it has stopped by itself."""
        assert self.query.awaitTermination(seconds)
        return self.so_far()

    def batches(self) -> list[int]:
        """How many rows were in each batch that had any."""
        return [each["numInputRows"] for each in self.query.recentProgress if each["numInputRows"]]

    def stop(self) -> None:
        self.query.stop()

    def __enter__(self) -> Collected:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def values(table: DataFrame) -> list[str]:
    """As text, by partition and offset."""
    rows = table.select("value", "partition", "offset").orderBy("partition", "offset").collect()
    return [bytes(row.value).decode() for row in rows]


def texts(numbers: Iterable[object]) -> list[str]:
    return [str(number) for number in numbers]
