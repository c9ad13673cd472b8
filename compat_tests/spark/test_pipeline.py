"""The jobs of the pipeline on a real Spark, with a few thousand events that went through all of
them, and what the audit says when something of them is not as it should be."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from pyk.testing import Record, SubprocessBroker, serve_in_subprocess
from spark_jobs.manifest import Manifest
from spark_jobs.options import Streaming
from spark_jobs.ranges import Range, range_options, time_options
from spark_jobs.watching import Display

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.checks import Finding

pytestmark = pytest.mark.timeout(900)
EVENTS = 4000


@dataclass(frozen=True)
class Flow:
    """A run of the whole pipeline, and what it left."""

    servers: str
    out: Path
    is_right: bool
    manifest: Manifest
    how: Streaming

    def audited(self, spark: SparkSession, topic: str, as_if: str) -> list[Finding]:
        """Audit a copy of a topic by what is true of the topic."""
        from spark_jobs.audit import RULES, audit_topic

        expected = self.manifest.topics[as_if]
        return audit_topic(spark, self.servers, topic, RULES[as_if], expected).findings


@pytest.fixture(scope="module")
def flow(
    spark: SparkSession, broker: SubprocessBroker, tmp_path_factory: pytest.TempPathFactory
) -> Flow:
    from spark_jobs.pipeline import Run, run, watermark
    from spark_jobs.synthesis import Plan

    out = tmp_path_factory.mktemp("flow")
    plan = Plan(events=EVENTS)
    how = Streaming(
        bootstrap_servers=broker.bootstrap_servers,
        checkpoints=str(out / "checkpoints"),
        watermark=watermark(plan, 2),
        per_batch=EVENTS // 2,
    )
    is_right = run(Run(spark=spark, plan=plan, how=how, out=out, display=Display()))
    manifest = Manifest.load(out / "manifest.json")
    return Flow(broker.bootstrap_servers, out, is_right, manifest, how)


def values(broker: SubprocessBroker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in broker.records(topic) if record.value]


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def hour_of(event: dict[str, Any]) -> str:
    return str(event["at"])[:13]


def wrong(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings if not finding.is_right}


# The whole


def test_a_run_in_which_nothing_goes_wrong_passes_its_audit(flow: Flow) -> None:
    assert flow.is_right


def test_a_run_leaves_plots(flow: Flow) -> None:
    for name in ("throughput.png", "lag.png", "lateness.png"):
        assert (flow.out / name).read_bytes().startswith(b"\x89PNG")


def test_what_is_sent_has_every_kind_of_trouble(flow: Flow) -> None:
    counts = flow.manifest.counts
    assert counts["sent"] == EVENTS + counts["duplicates"]
    assert min(counts.values()) > 0
    errors = set(flow.manifest.topics["events.dead"])
    assert errors >= {"empty", "unreadable", "no id", "unknown type", "bad time", "too late"}


def test_few_customers_send_most_events(flow: Flow, broker: SubprocessBroker) -> None:
    sent = Counter(record.key for record in broker.records("events.raw"))
    top = sum(count for _, count in sent.most_common(len(sent) // 10))
    assert top > sum(sent.values()) / 3


# Ingest


def test_an_event_that_was_sent_twice_goes_on_once(flow: Flow, broker: SubprocessBroker) -> None:
    raw = Counter(record.value for record in broker.records("events.raw"))
    assert sum(count > 1 for count in raw.values()) > EVENTS / 200
    ids = Counter(event["id"] for event in values(broker, "events.clean"))
    assert set(ids.values()) == {1}


def test_a_dead_letter_is_as_it_came_and_says_why_and_from_where(
    flow: Flow, broker: SubprocessBroker
) -> None:
    came = {(each.partition, each.offset): each for each in broker.records("events.raw")}
    letters = broker.records("events.dead")
    assert len(letters) > 0
    for letter in letters:
        told = headers(letter)
        origin = came[int(told["origin-partition"]), int(told["origin-offset"])]
        assert told["origin-topic"] == "events.raw"
        assert int(told["origin-timestamp"]) == origin.timestamp
        assert (letter.key, letter.value) == (origin.key, origin.value)
        assert told["event-type"] == headers(origin)["event-type"]
        assert told["error"] in flow.manifest.topics["events.dead"]


def test_what_is_wrong_with_an_event_is_said(spark: SparkSession) -> None:
    from spark_jobs.schema import parse_raw

    time = "2026-01-01T00:00:00.000Z"
    good = {"id": "e", "type": "order", "at": time, "sent": time, "customer": "c", "order": "o"}
    good |= {"cents": 5}  # type: ignore[dict-item]
    told = {
        "none": good,
        "no id": {**good, "id": None},
        "unknown type": {**good, "type": "refund"},
        "no customer": {**good, "customer": None},
        "bad time": {**good, "at": "yesterday"},
        "bad amount": {**good, "cents": "free"},
        "no order": {**good, "order": None},
        "too late": {**good, "sent": "2026-01-01T00:30:00.001Z"},
    }
    rows = [(name, json.dumps(event).encode()) for name, event in told.items()]
    rows += [("empty", None), ("unreadable", b"{"), ("unreadable", b"\xff")]  # type: ignore[list-item]
    frame = spark.createDataFrame(rows, "expected string, value binary")
    found = [(row["expected"], row["error"] or "none") for row in parse_raw(frame).collect()]
    assert [expected for expected, _ in found] == [error for _, error in found]


# Enrich


def test_every_order_comes_out_once_paid_or_not(flow: Flow, broker: SubprocessBroker) -> None:
    clean = values(broker, "events.clean")
    orders = {event["order"] for event in clean if event["type"] == "order"}
    paid = {event["order"] for event in clean if event["type"] == "payment"} & orders
    found = Counter(event["order"] for event in values(broker, "orders.enriched"))
    assert found == Counter(orders)
    status = {event["order"]: event["status"] for event in values(broker, "orders.enriched")}
    assert {order for order, each in status.items() if each == "paid"} == paid
    assert 0 < len(orders - paid) < len(orders) / 3


def test_an_order_has_what_the_tables_know(
    flow: Flow, broker: SubprocessBroker, spark: SparkSession
) -> None:
    from spark_jobs.materialize import read_table
    from spark_jobs.synthesis import catalogue

    known = {
        row["customer"]: row for row in read_table(spark, str(flow.out / "customers")).collect()
    }
    category = {row["product"]: row["category"] for row in catalogue(spark, 500).collect()}
    orders = values(broker, "orders.enriched")
    for order in orders:
        row = known.get(order["customer"])
        assert order.get("segment") == (row["segment"] if row else None)
        assert order["category"] == category[order["product"]]
    assert any("segment" not in order for order in orders), "nobody had left"


# Aggregate


def test_each_event_is_counted_once_in_its_hour(
    flow: Flow, broker: SubprocessBroker, spark: SparkSession
) -> None:
    from spark_jobs.aggregate import read_table

    expected: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for event in values(broker, "events.clean"):
        if event["type"] != "tick":
            tally = expected[hour_of(event), event["type"], event["source"]]
            tally[0] += 1
            tally[1] += event.get("cents", 0)
    rows = read_table(spark, str(flow.out / "revenue")).collect()
    in_table = {
        (row["hour"].strftime("%Y-%m-%dT%H"), row["type"], row["source"]): [
            row["events"],
            row["cents"],
        ]
        for row in rows
    }
    assert in_table == expected
    in_topic = {}
    for record in broker.records("revenue.hourly"):
        row = json.loads(record.value or b"")
        in_topic[row["hour"][:13], row["type"], row["source"]] = [row["events"], row["cents"]]
    assert in_topic == expected


# Materialize


def test_the_table_has_the_last_value_of_each_key_that_has_one(
    flow: Flow, broker: SubprocessBroker, spark: SparkSession
) -> None:
    from spark_jobs.materialize import read_latest

    last = {record.key: record.value for record in broker.records("customers.latest")}
    expected = {key.decode(): value.decode() for key, value in last.items() if key and value}
    assert len(expected) < len(last), "nobody had left"
    rows = read_latest(spark, str(flow.out / "customers")).collect()
    assert {row["key"]: row["value"] for row in rows} == expected
    assert len(rows) == len(expected)


def test_a_table_takes_in_what_is_new_and_nothing_else(
    spark: SparkSession, broker: SubprocessBroker, tmp_path: Path
) -> None:
    from spark_jobs.materialize import begin, read_latest

    topic = broker.create_topic("latest", configs={"cleanup.policy": "compact"})
    how = Streaming(
        bootstrap_servers=broker.bootstrap_servers, checkpoints=str(tmp_path / "checkpoints")
    )
    table = str(tmp_path / "table")

    def put(*pairs: tuple[str, str | None]) -> int:
        sent = [Record(key=k.encode(), value=v.encode() if v else None) for k, v in pairs]
        broker.produce(topic, *sent)
        query = begin(spark, how, table, topic)
        query.awaitTermination()
        return int(query.lastProgress["numInputRows"])

    assert put(("ann", "1"), ("bob", "1"), ("ann", "2")) == 3
    assert put(("bob", None), ("cat", "1")) == 2
    found = {row["key"]: row["value"] for row in read_latest(spark, table).collect()}
    assert found == {"ann": "2", "cat": "1"}


def test_a_batch_that_is_done_again_makes_the_same_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    from spark_jobs.materialize import make_version, read_latest

    def put(batch: int, *rows: tuple[str, str | None, int]) -> dict[str, str]:
        frame = spark.createDataFrame(rows, "key string, value string, offset bigint")
        make_version(spark, tmp_path, frame, batch)
        found = read_latest(spark, str(tmp_path)).collect()
        assert len(found) == len({row["key"] for row in found})
        return {row["key"]: row["value"] for row in found}

    put(0, ("ann", "1", 0), ("bob", "1", 1))
    second = [("ann", None, 2), ("cat", "1", 3)]
    half_written = tmp_path / "version=1-crashed"
    half_written.mkdir()
    assert put(1, *second) == {"bob": "1", "cat": "1"}
    assert put(1, *second) == {"bob": "1", "cat": "1"}
    assert not half_written.exists()
    assert put(0, ("dan", "1", 0)) == {"dan": "1"}, "a new life began with an old table"


# Replay, and the audit of what it makes


def test_a_copy_of_a_topic_passes_the_audit_of_the_topic(flow: Flow, spark: SparkSession) -> None:
    from spark_jobs.replay import copy, read

    copy(read(spark, flow.servers, {"subscribe": "events.clean"}), flow.servers, "copy")
    assert wrong(flow.audited(spark, "copy", "events.clean")) == set()


@pytest.mark.parametrize("topic", ["events.clean", "events.dead"])
def test_a_record_that_is_lost_turns_the_audit_red(
    flow: Flow, spark: SparkSession, broker: SubprocessBroker, topic: str
) -> None:
    from spark_jobs.replay import copy, read

    ranges = [Range(partition, -2, -1) for partition in range(4)]
    lost = broker.records(topic, partition=2)[0]
    ranges[2] = Range(2, 1, -1)
    copy(read(spark, flow.servers, range_options(topic, ranges)), flow.servers, f"{topic}.short")
    group = headers(lost)["event-type" if topic == "events.clean" else "error"]
    assert wrong(flow.audited(spark, f"{topic}.short", topic)) == {group}


def test_a_record_that_is_sent_twice_turns_the_audit_red(
    flow: Flow, spark: SparkSession, broker: SubprocessBroker
) -> None:
    from spark_jobs.replay import copy, read

    copy(read(spark, flow.servers, {"subscribe": "events.clean"}), flow.servers, "twice")
    again = range_options("events.clean", [Range(1, 3, 4)])
    copy(read(spark, flow.servers, again), flow.servers, "twice")
    kind = headers(broker.records("events.clean", partition=1, start=3)[0])["event-type"]
    assert wrong(flow.audited(spark, "twice", "events.clean")) == {"duplicates", kind}


def test_copies_that_are_allowed_are_put_aside(flow: Flow, spark: SparkSession) -> None:
    from spark_jobs.audit import RULES, audit_topic
    from spark_jobs.replay import copy, read

    copy(read(spark, flow.servers, {"subscribe": "events.clean"}), flow.servers, "again")
    copy(read(spark, flow.servers, {"subscribe": "events.clean"}), flow.servers, "again")
    rules = replace(RULES["events.clean"], duplicates_refused=False)
    expected = flow.manifest.topics["events.clean"]
    findings = audit_topic(spark, flow.servers, "again", rules, expected).findings
    assert wrong(findings) == set()
    (told,) = [each for each in findings if each.check == "duplicates"]
    assert int(told.found.replace(",", "")) > EVENTS * 0.9


def test_a_table_that_lacks_a_row_turns_the_audit_red(
    flow: Flow, spark: SparkSession, tmp_path: Path
) -> None:
    from spark_jobs.audit import audit_tables

    customers, revenue = str(flow.out / "customers"), str(flow.out / "revenue")
    assert wrong(audit_tables(spark, flow.manifest, customers, revenue)) == set()
    some = spark.read.parquet(f"{revenue}/batch=0").filter("not (type = 'view' and source = 'app')")
    some.write.parquet(str(tmp_path / "batch=0"))
    assert wrong(audit_tables(spark, flow.manifest, customers, str(tmp_path))) >= {"view"}


def test_offsets_that_transactions_take_are_gaps_unless_they_are_allowed(
    spark: SparkSession, broker: SubprocessBroker
) -> None:
    from spark_jobs.audit import Rules, audit_topic

    topic = broker.create_topic("in-transactions")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "audited"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"first")
    producer.commit_transaction()
    broker.produce(topic, "second")
    servers = broker.bootstrap_servers
    assert wrong(audit_topic(spark, servers, topic, Rules()).findings) == {"offsets"}
    assert audit_topic(spark, servers, topic, Rules(gaps_allowed=True)).is_right


def test_a_part_of_a_topic_is_read_by_time_in_as_many_tasks_as_wanted(
    spark: SparkSession, broker: SubprocessBroker
) -> None:
    from spark_jobs.replay import read

    topic = broker.create_topic("timed", 2)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    noon_ms = int(noon.timestamp() * 1000)
    for partition in (0, 1):
        sent = [Record(value=b"%d" % n, timestamp=noon_ms + n * 60_000) for n in range(60)]
        broker.produce(topic, *sent, partition=partition)
    options = time_options(topic, noon.replace(minute=10), noon.replace(minute=30))
    found = read(spark, broker.bootstrap_servers, options, tasks=8)
    minutes = Counter(int(bytes(row["value"])) for row in found.select("value").collect())
    assert minutes == Counter(dict.fromkeys(range(10, 30), 2))
    assert found.rdd.getNumPartitions() >= 8


# Generate


def test_a_paced_stream_takes_its_time_and_is_all_there(spark: SparkSession) -> None:
    from spark_jobs.audit import RULES, audit_topic
    from spark_jobs.generate import send_paced
    from spark_jobs.synthesis import Plan
    from spark_jobs.tallies import expected
    from spark_jobs.topics import make_topics

    with serve_in_subprocess() as own:
        servers = own.bootstrap_servers
        make_topics(servers)
        plan = Plan(events=900, step_us=1_000_000 // 300)
        assert send_paced(spark, plan, servers, rate=300, stop=Event()).events == 900
        # Pacing begins when the changes are sent.
        began = max(record.timestamp for record in own.records("customers.latest"))
        for record in own.records("events.raw"):
            if found := re.search(rb'"id":"e-(\d+)"', record.value or b""):
                assert record.timestamp >= began + int(found[1]) // 300 * 1000
        wanted = expected(spark, plan).topics["events.raw"]
        assert audit_topic(spark, servers, "events.raw", RULES["events.raw"], wanted).is_right


def test_another_seed_sends_other_events(spark: SparkSession) -> None:
    from spark_jobs.synthesis import Plan
    from spark_jobs.tallies import expected

    first, again, other = [
        expected(spark, Plan(events=500, seed=seed)).topics for seed in (1, 1, 2)
    ]
    assert first == again
    assert first["events.raw"] != other["events.raw"]
