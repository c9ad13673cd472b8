"""Where streaming queries of a session keep their checkpoints: where the next run finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyk.spark import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


def lines(spark: SparkSession, home: Path) -> DataFrame:
    return spark.readStream.text(str(home / "in"))


def begun(writer: DataStreamWriter, home: Path) -> StreamingQuery:
    """To files, as far as lines are there."""
    return writer.format("parquet").trigger(availableNow=True).start(str(home / "out"))


def add(home: Path, name: str, text: str) -> None:
    (home / "in").mkdir(exist_ok=True)
    (home / "in" / name).write_text(text)


def test_a_query_without_a_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    add(tmp_path, "1", "a\nb\nc\n")
    writer = lines(spark, tmp_path).writeStream
    for each in (writer, writer.queryName("nobody")):
        with pytest.raises(AnalysisException, match="checkpointLocation"):
            begun(each, tmp_path)


def test_a_named_query_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    for number, text in enumerate(("a\nb\nc\n", "d\ne\nf\n")):
        add(tmp_path, str(number), text)
        query = begun(named(lines(spark, tmp_path), tmp_path.name), tmp_path)
        query.awaitTermination()
        assert query.name == tmp_path.name
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.value for row in rows) == list("abcdef")


def test_a_name_is_one_directory(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, "1", "a\n")
    for name in ("", "a/b", "../a"):
        with pytest.raises(ValueError, match="no name of a query"):
            named(lines(spark, tmp_path), name)


def test_without_checkpoints_nothing_can_be_named(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, "1", "a\n")
    key = "spark.pyk.checkpoints"
    kept = spark.conf.get(key)
    spark.conf.unset(key)
    try:
        with pytest.raises(ValueError, match="no checkpoints"):
            named(lines(spark, tmp_path), "a")
    finally:
        spark.conf.set(key, kept)
