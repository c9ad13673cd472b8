"""Read a part of a topic again, by offsets or by time, to the console, to Parquet or to a topic.

    python -m spark_jobs.replay events.clean --offsets 0:100-200,1:50- --to-topic again
    python -m spark_jobs.replay events.clean --since 2026-01-01T08:00:00Z --parquet there

Offsets are half open: 0:100-200 is from 100 to 199 of partition 0, and partitions that are not
named are left out. Times are those of the records, when the broker or the producer stamped them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.options import parser, start_session, write_topic
from spark_jobs.ranges import parse_ranges, range_options, time_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN: Final = 20


def read(
    spark: SparkSession, bootstrap_servers: str, options: dict[str, str], tasks: int | None = None
) -> DataFrame:
    """`tasks` is how many tasks at least share the work; by default one for each partition."""
    from pyk.spark import kafka_options

    reader = spark.read.format("kafka").options(**kafka_options(bootstrap_servers), **options)
    if tasks is not None:
        reader = reader.option("minPartitions", tasks)
    return reader.option("includeHeaders", True).load()


def copy(records: DataFrame, bootstrap_servers: str, topic: str) -> None:
    """Keys, values and headers; the partitions are those that the keys choose."""
    write_topic(records.select("key", "value", "headers"), bootstrap_servers, topic)


def show(records: DataFrame) -> None:
    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    shown = records.select("partition", "offset", "timestamp", *text)
    shown.orderBy("partition", "offset").show(SHOWN, truncate=False)
    print(f"{records.count():,} records")


def main() -> None:
    made = parser("replay", __doc__)
    made.add_argument("topic")
    made.add_argument("--offsets", type=parse_ranges, metavar="PARTITION:START-END,...")
    made.add_argument("--since", type=datetime.fromisoformat, metavar="TIME", help="ISO 8601.")
    made.add_argument("--until", type=datetime.fromisoformat, metavar="TIME")
    made.add_argument("--min-partitions", type=int, help="How many tasks share the work at least.")
    made.add_argument("--to-topic")
    made.add_argument("--parquet", metavar="DIRECTORY")
    arguments = made.parse_args()
    if arguments.offsets:
        options = range_options(arguments.topic, arguments.offsets)
    else:
        options = time_options(arguments.topic, arguments.since, arguments.until)
    spark = start_session(arguments, "replay")
    servers = arguments.bootstrap_servers
    records = read(spark, servers, options, arguments.min_partitions)
    if arguments.to_topic:
        copy(records, servers, arguments.to_topic)
    if arguments.parquet:
        records.write.mode("overwrite").parquet(arguments.parquet)
    if not arguments.to_topic and not arguments.parquet:
        show(records)
    spark.stop()


if __name__ == "__main__":
    main()
