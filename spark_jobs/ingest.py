"""Part valid events from others: events.raw to events.clean and events.dead.

An event that comes twice goes on once, as long as its second copy comes within the watermark. One
that is not valid goes to the dead letters as it came, with `error` and its origin in headers.

After a crash the micro-batch that was under way is done again, and what it had written is written
again. Readers of events.clean tell by the id; dead letters by their origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.options import (
    Streaming,
    add_streaming_options,
    parser,
    read_stream,
    run_until_done,
    sink_options,
    start,
    start_session,
    streaming,
)
from spark_jobs.schema import (
    CLEAN,
    DEAD,
    ERROR_HEADER,
    RAW,
    SOURCE_HEADER,
    TYPE_HEADER,
    clean_json,
    headers_of,
    parse_raw,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NAME = "ingest"


def begin(spark: SparkSession, how: Streaming) -> StreamingQuery:
    parsed = parse_raw(read_stream(spark, how, RAW))
    routed = clean(parsed, how.watermark).unionByName(dead(parsed))
    writer = routed.writeStream.format("kafka").outputMode("append")
    return start(writer.options(**sink_options(how.bootstrap_servers)), how, NAME)


def clean(parsed: DataFrame, watermark: str) -> DataFrame:
    valid = parsed.filter("error is null").withWatermark("at", watermark)
    headers = headers_of({TYPE_HEADER: F.col("type"), SOURCE_HEADER: F.col("source")})
    return valid.dropDuplicatesWithinWatermark(["id"]).select(
        F.lit(CLEAN).alias("topic"),
        F.col("customer").cast("binary").alias("key"),
        clean_json().cast("binary").alias("value"),
        headers.alias("headers"),
    )


def dead(parsed: DataFrame) -> DataFrame:
    origin = {
        ERROR_HEADER: F.col("error"),
        "origin-topic": F.col("topic"),
        "origin-partition": F.col("partition").cast("string"),
        "origin-offset": F.col("offset").cast("string"),
        "origin-timestamp": F.unix_millis("timestamp").cast("string"),
    }
    told = headers_of(origin)
    headers = F.when(F.col("headers").isNull(), told).otherwise(F.concat("headers", told))
    return parsed.filter("error is not null").select(
        F.lit(DEAD).alias("topic"), "key", "value", headers.alias("headers")
    )


def main() -> None:
    made = parser(NAME, __doc__)
    add_streaming_options(made)
    arguments = made.parse_args()
    spark = start_session(arguments, NAME)
    run_until_done(spark, begin(spark, streaming(arguments)))


if __name__ == "__main__":
    main()
