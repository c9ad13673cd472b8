"""Send a stream of orders, page views and payments to events.raw, and changes of customers to
customers.latest; leave a manifest of what was sent and of what must come of it.

    python -m spark_jobs.generate --events 1000000 --manifest manifest.json
    python -m spark_jobs.generate --rate 2000 --seconds 60 --manifest manifest.json
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.options import (
    INTERRUPTED,
    end,
    interruptible,
    parser,
    start_session,
    write_topic,
)
from spark_jobs.pacing import Chunk, chunks, paced_chunks
from spark_jobs.schema import CLEAN, CUSTOMERS, RAW, SOURCE_HEADER, TICK, TYPE_HEADER, headers_of
from spark_jobs.synthesis import Plan, customer_changes, raw_records, sent, slots
from spark_jobs.tallies import expected

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

CLOSING_DAYS: Final = 30
"""How far after the last event the closing tick is: further than any watermark."""


def send(spark: SparkSession, plan: Plan, servers: str, chunk: Chunk) -> None:
    write_topic(raw_records(sent(plan, slots(spark, *chunk))), servers, RAW)


def send_all(
    spark: SparkSession,
    plan: Plan,
    servers: str,
    done: Callable[[int], None] = lambda events: None,
) -> None:
    """As fast as it goes. `done` is told how many slots were sent."""
    send_changes(spark, plan, servers)
    for chunk in chunks(plan.events):
        send(spark, plan, servers, chunk)
        done(chunk.first + chunk.size)


def send_paced(spark: SparkSession, plan: Plan, servers: str, rate: int, stop: Event) -> Plan:
    """As many in a second until all are sent, or until it is stopped. What was sent."""
    send_changes(spark, plan, servers)
    done = 0
    for chunk in paced_chunks(plan.events, rate, time.monotonic, stop.wait):
        send(spark, plan, servers, chunk)
        done += chunk.size
    return replace(plan, events=done, customers=plan.customer_count, step_us=plan.step)


def send_changes(spark: SparkSession, plan: Plan, servers: str) -> None:
    """One task has all changes of a customer, so that they are written in their order."""
    changes = customer_changes(spark, plan).repartition("key").sortWithinPartitions("n")
    write_topic(changes.select("key", "value"), servers, CUSTOMERS)


def close(spark: SparkSession, plan: Plan, servers: str) -> None:
    """Say on `events.clean` that time has gone on. Orders whose payments can come no more are found
    to be unpaid only then; nothing may be sent behind it."""
    at = F.date_format(
        F.timestamp_millis(F.lit(plan.end_ms + CLOSING_DAYS * 86_400_000)),
        "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    )
    tick = F.to_json(
        F.struct(
            F.lit("tick").alias("id"), F.lit(TICK).alias("type"), at.alias("at"), at.alias("sent")
        )
    )
    headers = headers_of({TYPE_HEADER: TICK, SOURCE_HEADER: "generator"})
    row = spark.range(1).select(F.lit(TICK).alias("key"), tick.alias("value"), headers)
    write_topic(row.withColumnRenamed(row.columns[-1], "headers"), servers, CLEAN)


def main() -> None:
    made = parser("generate", __doc__)
    made.add_argument("--events", type=int, default=100_000, help="[%(default)s]")
    made.add_argument("--rate", type=int, help="Events of a second, at the time of day.")
    made.add_argument("--seconds", type=int, default=60, help="With --rate. [%(default)s]")
    made.add_argument("--seed", type=int, default=7, help="[%(default)s]")
    made.add_argument("--manifest", type=Path, default=Path("manifest.json"), help="[%(default)s]")
    arguments = made.parse_args()
    spark = start_session(arguments, "generate")
    stop = Event()
    try:
        # What is paced ends with its manifest.
        end_it = stop.set if arguments.rate else lambda: end(spark)
        interruptible(lambda: _send_and_tell(spark, arguments, stop), end_it)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    spark.stop()


def _send_and_tell(spark: SparkSession, arguments: argparse.Namespace, stop: Event) -> None:
    servers = arguments.bootstrap_servers
    if arguments.rate is None:
        plan = Plan(events=arguments.events, seed=arguments.seed)
        send_all(spark, plan, servers, lambda done: print(f"{done:,} of {plan.events:,} sent"))
    else:
        wanted = Plan(
            events=arguments.rate * arguments.seconds,
            seed=arguments.seed,
            start_ms=int(time.time() * 1000),
            step_us=1_000_000 // arguments.rate,
        )
        plan = send_paced(spark, wanted, servers, arguments.rate, stop)
    if plan.events:
        manifest = expected(spark, plan)
        manifest.save(arguments.manifest)
        print(f"{arguments.manifest}: {manifest.counts}")


if __name__ == "__main__":
    main()
