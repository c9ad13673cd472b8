"""What `bench.spark` has Spark do, in one session for all rounds and both brokers.

    PYTHON_OF_A_SPARK_ENVIRONMENT -m bench.spark_client

reads lines of JSON, each with a verb, an address, a topic, and how many rows of which size, and
answers each with the seconds that it took.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pyk.spark import kafka_options, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG: Final = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
TASKS: Final = 2


def main() -> None:
    spark = session("bench", master=f"local[{TASKS}]", config=CONFIG)
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = perf_counter()
        {"write": write, "read": read}[asked["verb"]](spark, asked)
        print(perf_counter() - began, flush=True)


def write(spark: SparkSession, asked: dict[str, Any]) -> None:
    rows = spark.range(0, asked["rows"], numPartitions=TASKS)
    table = rows.selectExpr(
        "CAST(id AS STRING) AS key", f"rpad(CAST(id AS STRING), {asked['size']}, 'x') AS value"
    )
    options = kafka_options(asked["address"])
    table.write.format("kafka").options(**options).option("topic", asked["topic"]).save()


def read(spark: SparkSession, asked: dict[str, Any]) -> None:
    table = spark.read.format("kafka").options(**kafka_options(asked["address"]))
    found = table.option("subscribe", asked["topic"]).load()
    # The sum has Spark look at every value, and says whether they are all there.
    [row] = found.selectExpr("count(*) AS rows", "sum(length(value)) AS bytes").collect()
    assert (row.rows, row.bytes) == (asked["rows"], asked["rows"] * asked["size"]), row


if __name__ == "__main__":
    main()
