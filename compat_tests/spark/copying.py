"""A query that copies a topic into a table, batch by batch: the program that tests kill.

    python -m compat_tests.spark.copying ADDRESS TOPIC DIRECTORY

A batch is written to a directory of its own, over what an earlier try has left there: so each is in
the table once, though Spark may write it twice. Prints a line for each that is done.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyk.spark import kafka_options, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_ONCE: Final = 4_000
RETRIES: Final = {"fetchOffset.numRetries": "60", "fetchOffset.retryIntervalMs": "500"}


def main() -> None:
    address, topic, directory = sys.argv[1:]
    home = Path(directory)
    spark = session("copying", master="local[2]", config=QUIET)
    spark.sparkContext.setLogLevel("OFF")
    stream = (
        spark.readStream.format("kafka")
        .options(**kafka_options(address), **RETRIES)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", AT_ONCE)
        .load()
    )

    def write(batch: DataFrame, number: int) -> None:
        columns = batch.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        columns.write.mode("overwrite").parquet(str(home / "table" / f"batch={number}"))
        print(f"batch {number}", flush=True)

    writer = stream.writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).start()
    query.awaitTermination()


QUIET: Final = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}

if __name__ == "__main__":
    main()
