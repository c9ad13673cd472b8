"""How long after their time events were sent, computed by Spark from events.clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from spark_jobs.figures import Lateness
from spark_jobs.options import read_topic
from spark_jobs.schema import CLEAN, TICK, lateness_ms, parse_clean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS_PER_DECADE: Final = 4
SHORTEST: Final = 0.001


class Spread(NamedTuple):
    lateness: Lateness
    bins: Sequence[tuple[int, int]]
    """The number of a bin, and how many events are in it. Bin n begins at 10 ** (n / 4) seconds."""


def spread(spark: SparkSession, bootstrap_servers: str) -> Spread:
    events = parse_clean(read_topic(spark, bootstrap_servers, CLEAN))
    late = events.filter(F.col("type") != TICK).select((lateness_ms() / 1000).alias("s")).persist()
    try:
        quantiles = F.percentile_approx("s", [0.5, 0.95]).alias("q")
        row = late.agg(quantiles, F.max("s").alias("m")).collect()[0]
        number = F.floor(F.log10(F.greatest(F.col("s"), F.lit(SHORTEST))) * BINS_PER_DECADE)
        counted = late.groupBy(number.alias("n")).count().orderBy("n").collect()
        p50, p95 = row["q"] or (0.0, 0.0)
        return Spread(
            Lateness(p50, p95, row["m"] or 0.0), [(each["n"], each["count"]) for each in counted]
        )
    finally:
        late.unpersist()
