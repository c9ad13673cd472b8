r"""The data model of the pipeline: topics, what is in their records, and what makes an event valid.

    events.raw -> events.clean -> orders.enriched
              \-> events.dead \-> revenue.hourly
    customers.latest -> the table of customers

All of it is expressions that Spark's executors compute without Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAW: Final = "events.raw"
CLEAN: Final = "events.clean"
DEAD: Final = "events.dead"
ENRICHED: Final = "orders.enriched"
REVENUE: Final = "revenue.hourly"
CUSTOMERS: Final = "customers.latest"

COMPACTED: Final = frozenset({ENRICHED, REVENUE, CUSTOMERS})
"""Topics where the last record of a key is the one that counts."""

ORDER: Final = "order"
PAYMENT: Final = "payment"
VIEW: Final = "view"
TICK: Final = "tick"
"""Says nothing but what time it is, so that the time of a silent stream goes on."""

TYPE_HEADER: Final = "event-type"
SOURCE_HEADER: Final = "source"
ERROR_HEADER: Final = "error"

ALLOWED_LATENESS_MS: Final = 30 * 60_000
"""Between the time of an event and the time it was sent. What is later goes to the dead letters:
nothing is left for a watermark to drop in silence."""

EVENT_FIELDS: Final = {
    "id": "string",
    "type": "string",
    "source": "string",
    "at": "timestamp",
    "sent": "timestamp",
    "customer": "string",
    "product": "string",
    "order": "string",
    "quantity": "int",
    "cents": "bigint",
}
CUSTOMER_FIELDS: Final = {
    "customer": "string",
    "name": "string",
    "segment": "string",
    "country": "string",
    "change": "bigint",
}
UNREADABLE: Final = "_unreadable"


def schema_of(fields: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in fields.items())


def text_of_time(time: Column) -> Column:
    return F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def header_sql(name: str) -> str:
    """SQL for the value of the first header of that name, as text."""
    return f"cast(get(filter(headers, h -> h.key = '{name}'), 0).value as string)"


def headers_of(values: dict[str, Any]) -> Column:
    """Headers as the Kafka sink takes them, of columns or of text."""
    pairs = [
        F.struct(F.lit(name).alias("key"), _column(value).cast("binary").alias("value"))
        for name, value in values.items()
    ]
    return F.array(*pairs)


def event_json(columns: dict[str, Column]) -> Column:
    """An event as it is in a record. A field that is null is left out."""
    return F.to_json(F.struct(*[columns[name].alias(name) for name in EVENT_FIELDS]))


def clean_json() -> Column:
    """The value that a valid event has in `events.clean`, of the columns of EVENT_FIELDS."""
    columns = {name: F.col(name) for name in EVENT_FIELDS}
    return event_json({**columns, **{at: text_of_time(columns[at]) for at in ("at", "sent")}})


def parse_raw(records: DataFrame) -> DataFrame:
    """Records of `events.raw` with the columns of an event, and in `error` why one is not valid.

    Every field is read as text first, so that one that is wrong does not take the others with it.
    """
    as_text = dict.fromkeys([*EVENT_FIELDS, UNREADABLE], "string")
    options = {"columnNameOfCorruptRecord": UNREADABLE}
    found = F.from_json(F.col("value").cast("string"), schema_of(as_text), options)
    typed = [
        F.expr(f"try_cast(found.`{name}` as {kind})").alias(name)
        for name, kind in EVENT_FIELDS.items()
    ]
    read = records.withColumn("found", found)
    parsed = read.select("*", *typed, F.col(f"found.{UNREADABLE}").alias(UNREADABLE))
    return parsed.withColumn("error", why_invalid()).drop("found", UNREADABLE)


def why_invalid() -> Column:
    """The first thing that is wrong with an event, or null."""
    is_priced = F.col("type").isin(ORDER, PAYMENT)
    reasons = [
        ("empty", F.col("value").isNull()),
        ("unreadable", F.col(UNREADABLE).isNotNull()),
        ("no id", F.col("id").isNull()),
        ("unknown type", ~F.coalesce(F.col("type").isin(ORDER, PAYMENT, VIEW), F.lit(False))),
        ("no customer", F.col("customer").isNull()),
        ("bad time", F.col("at").isNull() | F.col("sent").isNull()),
        ("bad amount", is_priced & (F.coalesce(F.col("cents"), F.lit(0)) <= 0)),
        ("no order", is_priced & F.col("order").isNull()),
        ("too late", lateness_ms() > ALLOWED_LATENESS_MS),
    ]
    chosen = F.lit(None).cast("string")
    for reason, is_so in reversed(reasons):
        chosen = F.when(is_so, F.lit(reason)).otherwise(chosen)
    return chosen


def lateness_ms() -> Column:
    return F.unix_millis(F.col("sent")) - F.unix_millis(F.col("at"))


def parse_clean(records: DataFrame) -> DataFrame:
    """The events of `events.clean`, which are known to be valid."""
    value = F.col("value").cast("string")
    return records.select(F.from_json(value, schema_of(EVENT_FIELDS)).alias("e")).select("e.*")


def fingerprint(*columns: Column) -> Column:
    """32 bits of a hash of columns. Sums of it do not depend on the order of rows, and two billion
    of them fit into 64 bits."""
    return F.pmod(F.xxhash64(*columns), F.lit(2**32))


def _column(value: Any) -> Column:
    return F.lit(value) if isinstance(value, str) else value
