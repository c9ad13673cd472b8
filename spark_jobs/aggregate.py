"""Events and revenue of each hour, by type and source: events.clean to revenue.hourly and Parquet.

An hour comes out with every micro-batch that has an event of it. In the topic, the last record of a
key counts; in the Parquet files, which are in a directory for each batch, the row of the last
batch. A batch that is done again after a crash sends the same records again and replaces its own
directory, so both end as if there had been no crash. Events that ingest had to send twice are
counted once, by their id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    write_topic,
)
from spark_jobs.schema import CLEAN, REVENUE, TICK, parse_clean, text_of_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NAME: Final = "aggregate"
WINDOW: Final = "1 hour"


def begin(spark: SparkSession, how: Streaming, table: str) -> StreamingQuery:
    def put(hours: DataFrame, batch: int) -> None:
        put_batch(hours, batch, table, how.bootstrap_servers)

    hours = hourly(parse_clean(read_stream(spark, how, CLEAN)), how.watermark)
    return start(hours.writeStream.foreachBatch(put).outputMode("update"), how, NAME)


def hourly(events: DataFrame, watermark: str) -> DataFrame:
    once = events.withWatermark("at", watermark).dropDuplicatesWithinWatermark(["id"])
    told = once.filter(F.col("type") != TICK)
    summed = told.groupBy(F.window("at", WINDOW).alias("w"), "type", "source").agg(
        F.count("*").alias("events"), F.coalesce(F.sum("cents"), F.lit(0)).alias("cents")
    )
    return summed.select(F.col("w.start").alias("hour"), "type", "source", "events", "cents")


def put_batch(hours: DataFrame, batch: int, table: str, bootstrap_servers: str) -> None:
    hours.persist()
    try:
        dated = hours.withColumn("date", F.to_date("hour")).coalesce(1)
        files = dated.write.mode("overwrite").partitionBy("date")
        files.parquet(f"{table.rstrip('/')}/batch={batch}")
        write_topic(records(hours, batch), bootstrap_servers, REVENUE)
    finally:
        hours.unpersist()


def records(hours: DataFrame, batch: int) -> DataFrame:
    hour = text_of_time(F.col("hour"))
    value = F.to_json(
        F.struct(
            hour.alias("hour"), "type", "source", "events", "cents", F.lit(batch).alias("batch")
        )
    )
    return hours.select(F.concat_ws("/", hour, "type", "source").alias("key"), value.alias("value"))


def read_table(spark: SparkSession, table: str) -> DataFrame:
    """Every hour once, as the last batch that knew of it has it."""
    found = spark.read.option("basePath", table).parquet(f"{table.rstrip('/')}/batch=*")
    last = F.max_by(F.struct("events", "cents"), "batch").alias("last")
    return (
        found.groupBy("hour", "type", "source").agg(last).select("hour", "type", "source", "last.*")
    )


def main() -> None:
    made = parser(NAME, __doc__)
    add_streaming_options(made)
    made.add_argument("--table", required=True, help="The directory of the Parquet files.")
    arguments = made.parse_args()
    spark = start_session(arguments, NAME)
    run_until_done(spark, begin(spark, streaming(arguments), arguments.table))


if __name__ == "__main__":
    main()
