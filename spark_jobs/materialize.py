"""The latest value of each key of a compacted topic, as a table: customers.latest to Parquet.

Each micro-batch makes a version of the table, of the version before and of what the batch has: the
last value of a key is put into its place, a tombstone takes the key away. A batch that is done
again after a crash begins with the version of the batch before, and so makes the same table again.
A reader sees only whole versions: the file CURRENT says which.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from pyspark.sql import functions as F

from spark_jobs.options import (
    Streaming,
    add_streaming_options,
    parser,
    read_stream,
    run_until_done,
    start,
    start_session,
    streaming,
)
from spark_jobs.schema import CUSTOMER_FIELDS, CUSTOMERS, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NAME: Final = "materialize"
CURRENT: Final = "CURRENT"
KEPT_VERSIONS: Final = 2
"""Beside the current one: those that a reader may still be at, and the one that a batch begins with
when it is done again."""


class Version(NamedTuple):
    batch: int
    path: Path


def begin(
    spark: SparkSession, how: Streaming, table: str, topic: str = CUSTOMERS
) -> StreamingQuery:
    """`table` is a directory of a file system that driver and executors share."""

    def put(changes: DataFrame, batch: int) -> None:
        make_version(spark, Path(table), changes, batch)

    Path(table).mkdir(parents=True, exist_ok=True)
    changes = read_stream(spark, how, topic)
    return start(changes.writeStream.foreachBatch(put).outputMode("append"), how, NAME)


def make_version(spark: SparkSession, table: Path, changes: DataFrame, batch: int) -> None:
    before = [version for version in whole_versions(table) if version.batch < batch]
    made = Version(batch, table / f"version={batch}-{uuid4().hex[:8]}")
    last = latest(changes).persist()
    try:
        merged = merge(_read(spark, before[-1].path if before else None), last)
        merged.coalesce(1).write.parquet(str(made.path))
    finally:
        last.unpersist()
    draft = table / f".{CURRENT}"
    draft.write_text(made.path.name)
    os.replace(draft, table / CURRENT)
    _forget(table, {made, *before[-KEPT_VERSIONS:]})


def merge(table: DataFrame, last: DataFrame) -> DataFrame:
    untouched = table.join(last.select("key"), "key", "left_anti")
    return untouched.unionByName(last.filter("value is not null"))


def latest(changes: DataFrame) -> DataFrame:
    """All records of a key are of one partition, and offsets are their order."""
    keyed = changes.select(
        F.col("key").cast("string").alias("key"), F.col("value").cast("string"), "offset"
    )
    last = keyed.groupBy("key").agg(F.max_by(F.struct("value"), "offset").alias("last"))
    return last.select("key", "last.value")


def read_table(spark: SparkSession, table: str) -> DataFrame:
    """The columns of customers. A table that nobody has made is empty."""
    found = read_latest(spark, table)
    fields = F.from_json("value", schema_of(CUSTOMER_FIELDS)).alias("c")
    return found.select(fields).select("c.*")


def read_latest(spark: SparkSession, table: str) -> DataFrame:
    """Keys and their values."""
    current = Path(table) / CURRENT
    return _read(spark, Path(table) / current.read_text() if current.exists() else None)


def whole_versions(table: Path) -> list[Version]:
    """From the oldest. What was being written at a crash is not among them."""
    found = [
        Version(int(match[1]), path)
        for path in table.glob("version=*")
        if (match := re.match(r"version=(\d+)-", path.name)) and (path / "_SUCCESS").exists()
    ]
    return sorted(found)


def _read(spark: SparkSession, version: Path | None) -> DataFrame:
    if version is None:
        # Not of a list: that would need a Python on the executors.
        return spark.range(0).selectExpr("cast(id as string) key", "cast(id as string) value")
    return spark.read.parquet(str(version))


def _forget(table: Path, kept: set[Version]) -> None:
    """All other versions: older ones, those of a crash, and those of another checkpoint's life."""
    paths = {version.path for version in kept}
    for path in table.glob("version=*"):
        if path not in paths:
            shutil.rmtree(path)


def main() -> None:
    made = parser(NAME, __doc__)
    add_streaming_options(made)
    made.add_argument("--table", required=True, help="The directory of the table.")
    made.add_argument("--topic", default=CUSTOMERS, help="A compacted one. [%(default)s]")
    arguments = made.parse_args()
    spark = start_session(arguments, NAME)
    query = begin(spark, streaming(arguments), arguments.table, arguments.topic)
    run_until_done(spark, query)


if __name__ == "__main__":
    main()
