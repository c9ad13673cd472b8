"""Look whether a topic has all that it should have, once, and nothing else. Exit with 1 if not.

    python -m spark_jobs.audit events.clean --manifest manifest.json
    python -m spark_jobs.audit my.topic --identity key --gaps

Offsets have to be dense, but in topics that are compacted or written in transactions. Counts and
checksums are compared with the manifest that `generate` left. The topics of the pipeline are known;
of others, say what tells their records apart.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs import aggregate, materialize
from spark_jobs.checks import (
    Audited,
    Extent,
    Finding,
    check_density,
    check_duplicates,
    compare,
    table_of,
    table_of_extents,
)
from spark_jobs.manifest import Manifest, Tallies
from spark_jobs.options import parser, read_topic, start_session
from spark_jobs.schema import (
    CLEAN,
    CUSTOMERS,
    DEAD,
    ENRICHED,
    ERROR_HEADER,
    RAW,
    REVENUE,
    TICK,
    TYPE_HEADER,
    fingerprint,
    header_sql,
)
from spark_jobs.tallies import ALL, tally, tally_hashed, tally_revenue
from spark_jobs.topics import ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is true of a topic. Columns are SQL over `key` and `value`, which are text, and
    `headers`."""

    identity: str | None = None
    """What no two records may share."""
    group: str = f"'{ALL}'"
    fields: tuple[str, ...] = ("key", "value")
    """What the checksum is of."""
    gaps_allowed: bool = False
    duplicates_refused: bool = True
    """If not, copies are counted, and all but one of them put aside."""
    is_latest: bool = False
    """Only the last record of a key counts, and a tombstone takes all of them away."""


def _json(*names: str) -> tuple[str, ...]:
    return tuple(f"get_json_object(value, '$.{name}')" for name in names)


_ORIGIN: Final = "concat_ws('/', {}, {})".format(
    header_sql("origin-partition"), header_sql("origin-offset")
)
RULES: Final = {
    RAW: Rules(group=header_sql(TYPE_HEADER)),
    CLEAN: Rules(identity=_json("id")[0], group=header_sql(TYPE_HEADER)),
    DEAD: Rules(identity=_ORIGIN, group=header_sql(ERROR_HEADER)),
    ENRICHED: Rules(
        identity="key",
        group=_json("status")[0],
        fields=_json("order", "status", "cents"),
        gaps_allowed=True,
    ),
    REVENUE: Rules(
        group=_json("type")[0],
        fields=_json("hour", "type", "source", "events", "cents"),
        gaps_allowed=True,
        is_latest=True,
    ),
    CUSTOMERS: Rules(gaps_allowed=True, is_latest=True),
}


def audit_topic(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    rules: Rules,
    expected: Tallies | None = None,
) -> Audited:
    found_ends = ends(bootstrap_servers, topic)
    records = _records(read_topic(spark, bootstrap_servers, topic), rules).persist()
    try:
        extents = _extents(records, found_ends)
        findings = [check_density(topic, extents, gaps_allowed=rules.gaps_allowed)]
        if rules.identity is not None:
            findings.append(_check_duplicates(topic, records, rules))
        if expected is not None:
            # Ticks are no events: they say that nothing comes any more.
            found = tally_hashed(_counted(records, rules).filter(F.col("group") != TICK))
            findings += compare(topic, expected, found)
        return Audited(findings, extents)
    finally:
        records.unpersist()


def audit_tables(
    spark: SparkSession, manifest: Manifest, customers: str, revenue: str
) -> list[Finding]:
    """The tables that materialize and aggregate keep: as exact as if nothing had ever crashed."""
    latest = materialize.read_latest(spark, customers)
    known = tally(latest, F.lit(ALL), [F.col("key"), F.col("value")])
    hours = tally_revenue(aggregate.read_table(spark, revenue))
    return [
        *compare("table of customers", manifest.topics[CUSTOMERS], known),
        *compare("table of revenue", manifest.topics[REVENUE], hours),
    ]


def _records(read: DataFrame, rules: Rules) -> DataFrame:
    text = read.select(
        "partition",
        "offset",
        "headers",
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
    )
    hashed = fingerprint(*[F.expr(field) for field in rules.fields])
    identity = F.expr(rules.identity) if rules.identity else F.lit(None).cast("string")
    return text.select(
        "partition",
        "offset",
        "key",
        F.col("value").isNull().alias("is_tombstone"),
        F.coalesce(F.expr(rules.group), F.lit("none")).alias("group"),
        identity.alias("identity"),
        hashed.alias("hashed"),
    )


def _extents(records: DataFrame, known: dict[int, tuple[int, int]]) -> list[Extent]:
    summed = records.groupBy("partition").agg(
        F.count("*").alias("c"),
        F.sum(F.col("offset").cast("decimal(38,0)")).alias("o"),
        F.sum("hashed").alias("h"),
    )
    found = {row["partition"]: (row["c"], int(row["o"]), int(row["h"])) for row in summed.collect()}
    return [
        Extent(partition, start, end, *found.get(partition, (0, 0, 0)))
        for partition, (start, end) in sorted(known.items())
    ]


def _check_duplicates(topic: str, records: DataFrame, rules: Rules) -> Finding:
    known = records.filter("identity is not null")
    copies = known.groupBy("identity").agg((F.count("*") - 1).alias("more"))
    surplus = copies.agg(F.coalesce(F.sum("more"), F.lit(0)).alias("s")).collect()[0]["s"]
    return check_duplicates(topic, int(surplus), are_refused=rules.duplicates_refused)


def _counted(records: DataFrame, rules: Rules) -> DataFrame:
    if rules.is_latest:
        last = F.max_by(F.struct("is_tombstone", "group", "hashed"), "offset").alias("last")
        found = records.groupBy("key").agg(last).select("last.*")
        return found.filter("not is_tombstone")
    if rules.identity is not None and not rules.duplicates_refused:
        return records.dropDuplicates(["identity"])
    return records


def main() -> None:
    made = parser("audit", __doc__)
    made.add_argument("topic")
    made.add_argument("--manifest", type=Path, help="What generate left.")
    made.add_argument("--identity", help="SQL of what no two records may share; `key`, say.")
    made.add_argument("--gaps", action="store_true", help="Offsets need not be dense.")
    made.add_argument("--duplicates", action="store_true", help="Tell of them, and allow them.")
    arguments = made.parse_args()
    rules = RULES.get(arguments.topic, Rules())
    rules = replace(
        rules,
        identity=arguments.identity or rules.identity,
        gaps_allowed=arguments.gaps or rules.gaps_allowed,
        duplicates_refused=not arguments.duplicates,
    )
    expected = None
    if arguments.manifest is not None:
        expected = Manifest.load(arguments.manifest).topics[arguments.topic]
    spark = start_session(arguments, "audit")
    servers = arguments.bootstrap_servers
    audited = audit_topic(spark, servers, arguments.topic, rules, expected)
    spark.stop()
    print(f"{table_of_extents(audited.extents)}\n\n{table_of(audited.findings)}")
    sys.exit(0 if audited.is_right else 1)


if __name__ == "__main__":
    main()
