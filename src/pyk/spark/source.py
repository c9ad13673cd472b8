"""`spark.read.format("pyk")`: the logs of a data directory, read by Spark without a broker.

What to read is in `options`, where it is in `plan`, how it is read in `splits` and `columns`; here
is what Spark asks for. It needs PySpark 4.0 or newer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyk.spark.bounds import EVERYTHING, narrowed
from pyk.spark.columns import filled
from pyk.spark.options import InvalidOption, ReadOptions
from pyk.spark.plan import Split, plan
from pyk.spark.splits import Policy

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)

COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADER = [StructField("key", StringType()), StructField("value", BinaryType())]
HEADERS = StructField("headers", ArrayType(StructType(HEADER)))


class LogSource(DataSource):  # type: ignore[misc]
    def __init__(self, options: Mapping[str, str]) -> None:
        """Raise InvalidOption."""
        self._options = ReadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "pyk"

    def schema(self) -> StructType:
        """That of Spark's Kafka source."""
        return StructType([*COLUMNS, HEADERS] if self._options.has_headers else COLUMNS)

    def reader(self, schema: StructType) -> LogReader:
        """Raise InvalidOption, if somebody asked for other columns."""
        own = self.schema()
        if schema != own:
            raise InvalidOption(
                f"the columns are {own.simpleString()}, and not {schema.simpleString()}"
            )
        return LogReader(self._options)


class SplitPartition(InputPartition):  # type: ignore[misc]
    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class LogReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = EVERYTHING

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take from conditions where to look, if that is asked for, since Spark 4.1. Spark checks
        all of them again."""
        if self._options.pushes_down:
            self._bounds = narrowed(self._bounds, filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Raise InvalidOption, LogDamaged, DataLost."""
        splits = plan(self._options, self._bounds)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Raise LogDamaged, DataLost."""
        # Where there is nothing to read, Spark makes a task of its own, for nothing.
        if not isinstance(partition, SplitPartition):
            return
        options, split = self._options, partition.split
        policy = Policy(_report, options.skips_damage, options.fails_on_data_loss)
        found = filled(split, self._bounds.timestamp_ms, policy, has_headers=options.has_headers)
        for columns in found:
            yield columns.arrow()


def _report(text: str) -> None:
    logger.warning("%s", text)
