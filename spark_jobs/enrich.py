"""Orders with their payments, customers and products: events.clean to orders.enriched.

A payment belongs to an order if it is not older than half an hour before it, and not younger than
an hour after it. An order without one comes out as unpaid when the watermark has passed that hour.
Customers come from the table that `materialize` keeps, as it is when the job starts; products from
the catalogue.

Records are keyed by the order. What a crash has the job write again has the same key and value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.materialize import read_table
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
from spark_jobs.schema import CLEAN, ENRICHED, ORDER, PAYMENT, TICK, parse_clean, text_of_time
from spark_jobs.synthesis import catalogue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NAME: Final = "enrich"
PAID: Final = "paid"
UNPAID: Final = "unpaid"
PRODUCTS: Final = 500


def begin(
    spark: SparkSession, how: Streaming, customers: str, products: int = PRODUCTS
) -> StreamingQuery:
    """`customers` is the directory of the table."""
    events = parse_clean(read_stream(spark, how, CLEAN))
    once = events.withWatermark("at", how.watermark).dropDuplicatesWithinWatermark(["id"])
    known = with_tables(with_payments(once), read_table(spark, customers), spark, products)
    writer = records(known).writeStream.format("kafka").outputMode("append")
    options = sink_options(how.bootstrap_servers)
    return start(writer.options(**options).option("topic", ENRICHED), how, NAME)


def with_payments(events: DataFrame) -> DataFrame:
    """Ticks are on both sides, or else the side would not know what time it is."""
    orders = events.filter(F.col("type").isin(ORDER, TICK)).select(
        "order", "at", "customer", "product", "quantity", "cents", "source", "type"
    )
    payments = events.filter(F.col("type").isin(PAYMENT, TICK)).select(
        F.col("order").alias("paid_order"), F.col("at").alias("paid_at")
    )
    belongs = (F.col("order") == F.col("paid_order")) & is_within_bound(
        F.col("at"), F.col("paid_at")
    )
    joined = orders.join(payments, belongs, "left_outer")
    status = F.when(F.col("paid_at").isNull(), F.lit(UNPAID)).otherwise(F.lit(PAID))
    return joined.filter(F.col("type") == ORDER).withColumn("status", status)


def is_within_bound(at: Column, paid_at: Column) -> Column:
    earliest = at - F.expr("interval 30 minutes")
    return (paid_at >= earliest) & (paid_at <= at + F.expr("interval 1 hour"))


def with_tables(
    orders: DataFrame, customers: DataFrame, spark: SparkSession, products: int
) -> DataFrame:
    """A customer who is not in the table, or not any more, is of no segment."""
    known = customers.select("customer", "segment", "country")
    listed = catalogue(spark, products).select("product", "category")
    return orders.join(F.broadcast(known), "customer", "left").join(
        F.broadcast(listed), "product", "left"
    )


def records(enriched: DataFrame) -> DataFrame:
    fields = ["order", "status", "customer", "segment", "country"]
    more = ["product", "category", "quantity", "cents", "source"]
    times = [text_of_time(F.col(name)).alias(name) for name in ("at", "paid_at")]
    value = F.to_json(F.struct(*fields, *more, *times))
    return enriched.select(F.col("order").alias("key"), value.alias("value"))


def main() -> None:
    made = parser(NAME, __doc__)
    add_streaming_options(made)
    made.add_argument("--customers", required=True, help="The table that materialize keeps.")
    made.add_argument("--products", type=int, default=PRODUCTS, help="[%(default)s]")
    arguments = made.parse_args()
    spark = start_session(arguments, NAME)
    query = begin(spark, streaming(arguments), arguments.customers, arguments.products)
    run_until_done(spark, query)


if __name__ == "__main__":
    main()
