"""Events that are made up: every property of event n is a function of n and of the seed.

So executors compute them where they are, a rerun sends the same, and what must come of them can be
computed without having seen what was sent. Of ten events in a row six are views, two orders, and
two the payments of earlier orders. Customers and products follow Zipf's law. Some events are late,
malformed, or sent twice: the second time DUPLICATE_SLOTS events later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from spark_jobs.schema import (
    EVENT_FIELDS,
    ORDER,
    PAYMENT,
    SOURCE_HEADER,
    TYPE_HEADER,
    VIEW,
    event_json,
    headers_of,
    text_of_time,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

START_MS: Final = 1_767_225_600_000
"""2026-01-01, midnight in UTC."""
SPAN_MS: Final = 24 * 3_600_000
EVENTS_PER_ROUND: Final = 10
PAYMENT_DELAY_MS: Final = 600_000
DUPLICATE_SLOTS: Final = 97
EVENTS_PER_CHANGE: Final = 50
FAULTS: Final = ("empty", "truncated", "markup", "no id", "no customer", "unknown type", "bad time")
ERRORS: Final = {"truncated": "unreadable", "markup": "unreadable"}
"""What ingest says to a fault, where it has another name."""
TOO_LATE: Final = "too late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that events depend on."""

    events: int
    seed: int = 7
    start_ms: int = START_MS
    step_us: int = 0
    """From one event to the next. By default, all events fill a day."""
    customers: int = 0
    products: int = 500

    def settled(self) -> dict[str, Any]:
        return {**asdict(self), "step_us": self.step, "customers": self.customer_count}

    @property
    def step(self) -> int:
        return self.step_us or max(1, SPAN_MS * 1000 // self.events)

    @property
    def customer_count(self) -> int:
        return self.customers or max(50, self.events // 200)

    @property
    def changes(self) -> int:
        """Of customers."""
        return max(1, self.events // EVENTS_PER_CHANGE)

    @property
    def payment_slots(self) -> int:
        """How many events after an order its payment comes."""
        rounds = round(PAYMENT_DELAY_MS * 1000 / (EVENTS_PER_ROUND * self.step))
        return 2 + EVENTS_PER_ROUND * max(1, rounds)

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.events * self.step // 1000


class Law:
    """The properties of event n of a plan, as columns. `n` is a column, too."""

    def __init__(self, plan: Plan, n: Column) -> None:
        self.plan = plan
        self.n = n

    def die(self, what: str, sides: int, of: Column | None = None) -> Column:
        """From 0 to sides - 1, another one for each question."""
        drawn = F.xxhash64(F.lit(self.plan.seed), F.lit(what), self.n if of is None else of)
        return F.pmod(drawn, F.lit(sides))

    def zipf(self, what: str, count: int, of: Column | None = None) -> Column:
        """A rank from 1 to count, the first the most frequent: its frequency is 1/rank."""
        share = self.die(what, 2**30, of) / F.lit(2.0**30)
        return F.floor(F.pow(F.lit(float(count)), share)).cast("bigint")

    @property
    def place(self) -> Column:
        return self.n % EVENTS_PER_ROUND

    @property
    def paid_order(self) -> Column:
        """If this is a payment, of which order."""
        return self.n - self.plan.payment_slots

    @property
    def type(self) -> Column:
        pays = (self.place >= 8) & (self.paid_order >= 0) & self.is_paid(self.paid_order)
        is_order = (self.place >= 6) & (self.place < 8)
        chosen = F.when(is_order, F.lit(ORDER)).when(pays, F.lit(PAYMENT))
        return chosen.otherwise(F.lit(VIEW))

    def is_paid(self, order: Column) -> Column:
        """Nine of ten customers mean to pay."""
        return self.die("unpaid", 10, order) > 0

    @property
    def fault(self) -> Column:
        """What is wrong with it, or null."""
        drawn = self.die("fault", 1000)
        kinds = F.array(*[F.lit(fault) for fault in FAULTS])
        malformed = F.element_at(kinds, (self.die("kind", len(FAULTS)) + 1).cast("int"))
        return F.when(drawn < 15, malformed).when(drawn < 20, F.lit(TOO_LATE))

    @property
    def is_late(self) -> Column:
        return (self.die("late", 100) < 5) & self.fault.isNull()

    @property
    def delay_ms(self) -> Column:
        too_late = F.lit(2 * 3_600_000) + self.die("delay", 6 * 3_600_000)
        late = F.lit(60_000) + self.die("delay", 24 * 60_000)
        chosen = F.when(F.coalesce(self.fault == TOO_LATE, F.lit(False)), too_late)
        return chosen.when(self.is_late, late).otherwise(self.die("delay", 2000))

    @property
    def sent_ms(self) -> Column:
        passed = F.expr(f"{self.plan.step}L") * self.n / F.lit(1000)
        return F.lit(self.plan.start_ms) + F.floor(passed)

    @property
    def at_ms(self) -> Column:
        return self.sent_ms - self.delay_ms

    @property
    def is_sent_twice(self) -> Column:
        return self.die("twice", 100) < 1


def events(plan: Plan, numbered: DataFrame) -> DataFrame:
    """Rows with a column `n`, and the events of these numbers: `fault`, `is_late`, EVENT_FIELDS."""
    law = Law(plan, F.col("n"))
    marked = numbered.select(
        "n",
        law.type.alias("type"),
        law.fault.alias("fault"),
        law.is_late.alias("is_late"),
        F.timestamp_millis(law.at_ms).alias("at"),
        F.timestamp_millis(law.sent_ms).alias("sent"),
    )
    is_payment = F.col("type") == PAYMENT
    subject = F.when(is_payment, law.paid_order).otherwise(F.col("n"))
    drawn = marked.withColumn("subject", subject).select(
        "*",
        law.zipf("customer", plan.customer_count, F.col("subject")).alias("rank"),
        law.zipf("product", plan.products, F.col("subject")).alias("item"),
        (law.die("quantity", 3, F.col("subject")) + 1).cast("int").alias("amount"),
    )
    return drawn.select("n", "fault", "is_late", *_fields(law))


def _fields(law: Law) -> list[Column]:
    is_priced = F.col("type").isin(ORDER, PAYMENT)
    product = product_name(F.col("item"))
    sources = F.array(*[F.lit(source) for source in ("web", "app", "shop")])
    made = {
        "id": _name("e", F.col("n")),
        "type": F.col("type"),
        "source": F.element_at(sources, (law.die("source", 3) + 1).cast("int")),
        "at": F.col("at"),
        "sent": F.col("sent"),
        "customer": _name("c", F.col("rank")),
        "product": F.when(F.col("type") != PAYMENT, product),
        "order": F.when(is_priced, _name("o", F.col("subject"))),
        "quantity": F.when(F.col("type") == ORDER, F.col("amount")),
        "cents": F.when(is_priced, F.col("amount") * price_cents(product)),
    }
    return [made[name].alias(name) for name in EVENT_FIELDS]


def slots(spark: SparkSession, first: int, count: int) -> DataFrame:
    """The numbers of events, in `n`, in the order in which they are sent. Neighbours are in
    different partitions, so that all tasks are at about the same time of the stream."""
    tasks = spark.sparkContext.defaultParallelism
    rows = -(-count // tasks)
    ids = spark.range(0, rows * tasks, 1, tasks)
    n = F.lit(first) + (F.col("id") % rows) * tasks + F.floor(F.col("id") / rows)
    return ids.select(n.cast("bigint").alias("n")).filter(F.col("n") < first + count)


def sent(plan: Plan, slots: DataFrame) -> DataFrame:
    """What is sent in these slots: events, and some of those of earlier slots again."""
    earlier = F.col("n") - DUPLICATE_SLOTS
    again = F.when((earlier >= 0) & Law(plan, earlier).is_sent_twice, earlier)
    numbers = F.filter(F.array(F.col("n"), again), lambda number: number.isNotNull())
    unfolded = slots.select(F.posexplode(numbers).alias("copy", "n"))
    return events(plan, unfolded.select("n"))


def raw_records(sent: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
    """Events as records of `events.raw`, and columns to keep. What is malformed is so here."""
    columns = {name: F.col(name) for name in EVENT_FIELDS}
    is_wrong = {fault: F.coalesce(F.col("fault") == fault, F.lit(False)) for fault in FAULTS}
    columns["at"] = F.when(is_wrong["bad time"], F.lit("yesterday")).otherwise(
        text_of_time(F.col("at"))
    )
    columns["sent"] = text_of_time(F.col("sent"))
    columns["id"] = F.when(~is_wrong["no id"], F.col("id"))
    columns["customer"] = F.when(~is_wrong["no customer"], F.col("customer"))
    columns["type"] = F.when(is_wrong["unknown type"], F.lit("refund")).otherwise(F.col("type"))
    whole = event_json(columns)
    value = (
        F.when(is_wrong["empty"], F.lit(None).cast("string"))
        .when(is_wrong["truncated"], F.expr("substring(whole, 1, length(whole) div 2)"))
        .when(is_wrong["markup"], F.concat(F.lit("<event id='"), F.col("id"), F.lit("'/>")))
        .otherwise(F.col("whole"))
    )
    headers = headers_of({TYPE_HEADER: F.col("type"), SOURCE_HEADER: F.col("source")})
    return sent.withColumn("whole", whole).select(
        F.col("customer").alias("key"), value.alias("value"), headers.alias("headers"), *keep
    )


def customer_changes(spark: SparkSession, plan: Plan) -> DataFrame:
    """Records of `customers.latest`, with their number in `n`. One of ten is a tombstone."""
    law = Law(plan, F.col("n"))
    segments = F.array(*[F.lit(each) for each in ("new", "regular", "gold", "business")])
    countries = F.array(*[F.lit(each) for each in ("DE", "FR", "IT", "NL", "PL", "SE")])
    numbered = slots(spark, 0, plan.changes).withColumn(
        "key", _name("c", law.zipf("changed", plan.customer_count))
    )
    value = F.to_json(
        F.struct(
            F.col("key").alias("customer"),
            F.concat(F.lit("Customer "), F.expr("substring(key, 3)")).alias("name"),
            F.element_at(segments, (law.die("segment", 4) + 1).cast("int")).alias("segment"),
            F.element_at(countries, (law.die("country", 6) + 1).cast("int")).alias("country"),
            F.col("n").alias("change"),
        )
    )
    return numbered.select("n", "key", F.when(law.die("left", 10) > 0, value).alias("value"))


def catalogue(spark: SparkSession, products: int) -> DataFrame:
    """The static table of products."""
    categories = F.array(*[F.lit(each) for each in ("books", "garden", "kitchen", "toys")])
    product = product_name(F.col("id") + 1)
    return spark.range(products).select(
        product.alias("product"),
        F.element_at(categories, (F.pmod(F.xxhash64(product), F.lit(4)) + 1).cast("int")).alias(
            "category"
        ),
        price_cents(product).alias("list_price_cents"),
    )


def product_name(rank: Column) -> Column:
    return _name("p", rank)


def price_cents(product: Column) -> Column:
    return F.lit(199) + F.pmod(F.xxhash64(F.lit("price"), product), F.lit(20_000))


def _name(letter: str, number: Column) -> Column:
    return F.format_string(f"{letter}-%08d", number)
