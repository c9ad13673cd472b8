"""The whole pipeline: generate, materialize, ingest, enrich, aggregate, and an audit of all topics
and tables. Exit with 0 only if the audit finds nothing wrong.

    python -m spark_jobs.pipeline --events 1000000

A broker is started for it, unless there is one to use. A run that was killed goes on where it was
when it is started again with the same --out (and the same broker, if it was given one).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyk.testing import serve_in_subprocess
from spark_jobs import aggregate, enrich, generate, ingest, materialize
from spark_jobs.audit import RULES, audit_tables, audit_topic
from spark_jobs.checks import Finding, all_right
from spark_jobs.checks import table_of as table_of_findings
from spark_jobs.figures import Batch, JobFigures, table_of
from spark_jobs.lateness import spread
from spark_jobs.manifest import Manifest
from spark_jobs.options import (
    INTERRUPTED,
    Streaming,
    add_session_options,
    end,
    interruptible,
    start_session,
)
from spark_jobs.pacing import chunks
from spark_jobs.plots import draw_all
from spark_jobs.schema import ALLOWED_LATENESS_MS, CLEAN, CUSTOMERS, DEAD, ENRICHED, RAW, REVENUE
from spark_jobs.synthesis import Plan
from spark_jobs.tallies import expected
from spark_jobs.topics import TOPICS, are_empty, make_topics, size
from spark_jobs.watching import Display, Running, watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES: Final = 12
"""How many micro-batches a job needs for a run."""
MANIFEST: Final = "manifest.json"
SMALLEST_BATCH: Final = 1000
NOT_EMPTY: Final = (
    "the topics have records of another run: give its --out to go on with it, or other brokers"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One way through the pipeline, and where it keeps what it makes."""

    spark: SparkSession
    plan: Plan
    how: Streaming
    out: Path
    display: Display

    @property
    def servers(self) -> str:
        return self.how.bootstrap_servers

    @property
    def manifest_path(self) -> Path:
        return self.out / MANIFEST

    @property
    def customers(self) -> str:
        return str(self.out / "customers")

    @property
    def revenue(self) -> str:
        return str(self.out / "revenue")


def run(it: Run) -> bool:
    """Whether everything that came out is right."""
    is_resumed = it.manifest_path.exists()
    make_topics(it.servers)
    if not is_resumed and not are_empty(it.servers):
        raise SystemExit(f"pipeline: {NOT_EMPTY}")
    jobs = [] if is_resumed else [send(it)]
    manifest = Manifest.load(it.manifest_path)
    it.display.say(f"sent: {manifest.counts}")
    jobs += stream(it)
    findings = audit(it, manifest, is_resumed=is_resumed)
    it.display.say(table_of_findings(findings))
    found = spread(it.spark, it.servers)
    it.display.say(f"\n{table_of(jobs)}\nlateness of valid events: {found.lateness}")
    for plot in draw_all(it.out, jobs, found, ALLOWED_LATENESS_MS / 1000):
        it.display.say(str(plot))
    return all_right(findings)


def send(it: Run) -> JobFigures:
    """Everything, and then the manifest: a run that has one need not send any more."""
    figures = JobFigures("generate", has_lag=False)
    began = last = time.time()

    def note(done: int) -> None:
        nonlocal last
        now = time.time()
        rows = done - figures.rows_in
        batch = Batch(len(figures.batches), last, now - last, rows, it.plan.events - done, 0)
        figures.batches.append(batch)
        it.display.batch(figures.name, batch)
        it.display.bars([figures])
        last = now

    generate.send_all(it.spark, it.plan, it.servers, note)
    figures.seconds = time.time() - began
    figures.rows_out = size(it.servers, RAW) + size(it.servers, CUSTOMERS)
    expected(it.spark, it.plan).save(it.manifest_path)
    return figures


def stream(it: Run) -> list[JobFigures]:
    """Two jobs at a time; those that read what others write come after them."""
    first = [
        Running(materialize.begin(it.spark, it.how, it.customers), JobFigures(materialize.NAME)),
        Running(ingest.begin(it.spark, it.how), JobFigures(ingest.NAME)),
    ]
    watch_all(first, it)
    closed = it.out / "closed"
    if not closed.exists():
        generate.close(it.spark, it.plan, it.servers)
        closed.touch()
    second = [
        Running(enrich.begin(it.spark, it.how, it.customers), JobFigures(enrich.NAME)),
        Running(aggregate.begin(it.spark, it.how, it.revenue), JobFigures(aggregate.NAME)),
    ]
    watch_all(second, it)
    figures = [each.figures for each in (*first, *second)]
    written = [materialize.read_latest(it.spark, it.customers).count()]
    written += [size(it.servers, CLEAN) + size(it.servers, DEAD)]
    written += [size(it.servers, ENRICHED), size(it.servers, REVENUE)]
    for job, rows in zip(figures, written, strict=True):
        job.rows_out = rows
    return figures


def watch_all(running: list[Running], it: Run) -> None:
    try:
        watch(running, it.display)
    finally:
        for each in running:
            each.query.stop()


def audit(it: Run, manifest: Manifest, *, is_resumed: bool) -> list[Finding]:
    """After a crash, topics may have copies. Tables must not."""
    findings: list[Finding] = []
    for topic in TOPICS:
        rules = replace(RULES[topic], duplicates_refused=not is_resumed)
        found = audit_topic(it.spark, it.servers, topic, rules, manifest.topics[topic])
        findings += found.findings
        it.display.say(f"audit of {topic}: {'right' if found.is_right else 'WRONG'}")
    return findings + audit_tables(it.spark, manifest, it.customers, it.revenue)


def watermark(plan: Plan, batches: int) -> str:
    """Events of a micro-batch of ingest come out in any order, and so do those of one job of
    generate: further than that, and than the lateness that is allowed, none can be behind."""
    span = plan.events * plan.step / 1e6
    size_of_chunk = next(chunks(plan.events)).size
    behind = 1.5 * span / batches + span * size_of_chunk / plan.events
    return f"{round(behind + 2 * ALLOWED_LATENESS_MS / 1000)} seconds"


@contextmanager
def broker_at(address: str | None, out: Path) -> Iterator[str]:
    """Where to connect to. A broker that is started ends with this process, however that ends."""
    if address is not None:
        yield address
        return
    with serve_in_subprocess(data_dir=out / "broker") as broker:
        yield broker.bootstrap_servers


def main() -> None:
    arguments = _arguments()
    display = Display()
    try:
        with broker_at(arguments.bootstrap_servers, arguments.out) as servers:
            is_right = _run(arguments, servers, display)
    except KeyboardInterrupt:
        display.say(f"Interrupted. To go on: --out {arguments.out}")
        sys.exit(INTERRUPTED)
    sys.exit(0 if is_right else 1)


def _run(arguments: argparse.Namespace, servers: str, display: Display) -> bool:
    plan = _plan(arguments)
    how = Streaming(
        bootstrap_servers=servers,
        checkpoints=arguments.checkpoints or str(arguments.out / "checkpoints"),
        watermark=watermark(plan, arguments.batches),
        per_batch=max(SMALLEST_BATCH, plan.events // arguments.batches),
    )
    spark = start_session(arguments, "pipeline")
    display.say(f"Spark {spark.version}, broker at {servers}, all else in {arguments.out}")
    it = Run(spark=spark, plan=plan, how=how, out=arguments.out, display=display)
    try:
        return interruptible(lambda: run(it), lambda: end(spark))
    finally:
        spark.stop()


def _plan(arguments: argparse.Namespace) -> Plan:
    """That of the run that is to go on, or a new one."""
    manifest = arguments.out / MANIFEST
    if manifest.exists():
        return Plan(**Manifest.load(manifest).plan)
    return Plan(events=arguments.events, seed=arguments.seed)


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        prog="python -m spark_jobs.pipeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--events", type=int, default=1_000_000, help="[%(default)s]")
    made.add_argument("--seed", type=int, default=7, help="[%(default)s]")
    made.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="[a broker of its own]")
    made.add_argument("--batches", type=int, default=BATCHES, help="Of each job. [%(default)s]")
    made.add_argument(
        "--out", type=Path, help="Tables, plots, checkpoints. [.cache/pipeline/ and the time]"
    )
    made.add_argument("--checkpoints", help="A directory that executors reach. [under --out]")
    add_session_options(made)
    arguments = made.parse_args()
    if arguments.out is None:
        arguments.out = Path(".cache/pipeline") / time.strftime("%Y-%m-%d-%H%M%S")
    arguments.out = arguments.out.absolute()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


if __name__ == "__main__":
    main()
