"""Counts and checksums, computed by Spark: of what a plan sends, and of what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.enrich import PAID, UNPAID, is_within_bound
from spark_jobs.manifest import Manifest, Tallies, Tally
from spark_jobs.schema import (
    CLEAN,
    CUSTOMERS,
    DEAD,
    ENRICHED,
    ORDER,
    RAW,
    REVENUE,
    clean_json,
    fingerprint,
    text_of_time,
)
from spark_jobs.synthesis import (
    ERRORS,
    TOO_LATE,
    Law,
    Plan,
    customer_changes,
    events,
    raw_records,
    sent,
    slots,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ALL: Final = "all"
"""The group of records that are not told apart."""


def tally(frame: DataFrame, group: Column, columns: Sequence[Column]) -> Tallies:
    """A count and a checksum of the columns, as text, for each group."""
    hashed = fingerprint(*[column.cast("string") for column in columns])
    return tally_hashed(frame.select(group.alias("group"), hashed.alias("hashed")))


def tally_hashed(frame: DataFrame) -> Tallies:
    """Of rows with a `group`, and a fingerprint in `hashed`."""
    summed = frame.groupBy("group").agg(F.count("*").alias("c"), F.sum("hashed").alias("s"))
    return {row["group"] or "none": Tally(row["c"], int(row["s"])) for row in summed.collect()}


def expected(spark: SparkSession, plan: Plan) -> Manifest:
    """What the topics must have when everything that a plan sends has gone through the pipeline."""
    all_sent = sent(plan, slots(spark, 0, plan.events)).persist()
    each_once = events(plan, slots(spark, 0, plan.events)).filter("fault is null").persist()
    try:
        topics = {
            RAW: _raw(all_sent),
            DEAD: _dead(all_sent),
            CLEAN: tally(each_once, F.col("type"), [F.col("customer"), clean_json()]),
            ENRICHED: _enriched(plan, each_once),
            REVENUE: revenue(each_once),
            CUSTOMERS: _customers(spark, plan),
        }
        return Manifest(plan=plan.settled(), topics=topics, counts=_counts(plan, all_sent))
    finally:
        all_sent.unpersist()
        each_once.unpersist()


def _raw(all_sent: DataFrame) -> Tallies:
    records = raw_records(all_sent.withColumn("group", F.col("type")), keep=("group",))
    return tally(records, F.col("group"), [F.col("key"), F.col("value")])


def _dead(all_sent: DataFrame) -> Tallies:
    names = F.create_map(*[F.lit(word) for pair in ERRORS.items() for word in pair])
    error = F.coalesce(names[F.col("fault")], F.col("fault"))
    refused = all_sent.filter("fault is not null").withColumn("group", error)
    records = raw_records(refused, keep=("group",))
    return tally(records, F.col("group"), [F.col("key"), F.col("value")])


def _enriched(plan: Plan, each_once: DataFrame) -> Tallies:
    number = F.col("n") + plan.payment_slots
    payment = Law(plan, number)
    paid_at = F.timestamp_millis(payment.at_ms)
    is_sent = payment.is_paid(F.col("n")) & (number < plan.events) & payment.fault.isNull()
    is_paid = is_sent & is_within_bound(F.col("at"), paid_at)
    status = F.when(is_paid, F.lit(PAID)).otherwise(F.lit(UNPAID))
    orders = each_once.filter(F.col("type") == ORDER).withColumn("status", status)
    return tally(orders, F.col("status"), [F.col("order"), F.col("status"), F.col("cents")])


def revenue(events_once: DataFrame) -> Tallies:
    """Of hours, by type and source, as `aggregate` has to find them."""
    hourly = events_once.groupBy(F.window("at", "1 hour").alias("w"), "type", "source").agg(
        F.count("*").alias("events"), F.coalesce(F.sum("cents"), F.lit(0)).alias("cents")
    )
    return tally_revenue(hourly.withColumn("hour", F.col("w.start")))


def tally_revenue(hourly: DataFrame) -> Tallies:
    fields = [F.col(name) for name in ("type", "source", "events", "cents")]
    return tally(hourly, F.col("type"), [text_of_time(F.col("hour")), *fields])


def _customers(spark: SparkSession, plan: Plan) -> Tallies:
    changes = customer_changes(spark, plan)
    last = changes.groupBy("key").agg(F.max_by(F.struct("value"), "n").alias("last"))
    there = last.select("key", "last.value").filter("value is not null")
    return tally(there, F.lit(ALL), [F.col("key"), F.col("value")])


def _counts(plan: Plan, all_sent: DataFrame) -> dict[str, int]:
    is_malformed = F.col("fault").isNotNull() & (F.col("fault") != TOO_LATE)
    row = all_sent.agg(
        F.count("*").alias("sent"),
        F.count_if(is_malformed).alias("malformed"),
        F.count_if(F.col("fault") == TOO_LATE).alias("too_late"),
        F.count_if(F.col("is_late")).alias("late"),
    ).collect()[0]
    found = {name: int(row[name]) for name in ("sent", "malformed", "too_late", "late")}
    return {**found, "duplicates": found["sent"] - plan.events}
