"""What all jobs are told, and the session and the streams that come of it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

T = TypeVar("T")
INTERRUPTED: Final = 130
"""The exit code."""
LOOK_EVERY: Final = 0.2
"""Seconds between two looks whether there was an interrupt."""
LOCAL: Final = "local"
SUBMITTED_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""It is there in what spark-submit starts."""
WATERMARK: Final = "5 hours"
DRIVER_MEMORY: Final = "3g"
"""On one machine, the driver is the executor, too, and has the state of all queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """How a streaming job reads and how far its memory goes."""

    bootstrap_servers: str
    checkpoints: str
    """A directory that all executors reach. A job that is started again goes on from there."""
    watermark: str = WATERMARK
    """How much older than the newest event one may be before state that it needs is gone."""
    per_batch: int = 100_000
    every: float | None = None
    """Seconds between micro-batches, for ever; or else whatever is there now, and the end."""


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m spark_jobs.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--bootstrap-servers", default="localhost:9092", metavar="HOST:PORT,...")
    add_session_options(made)
    return made


def add_session_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--master", help="Spark's master. [spark-submit's, or else all cores of this machine]"
    )
    made.add_argument(
        "--jars",
        default="",
        help="Files to take in place of the connector from Maven, by commas. [PYK_SPARK_JARS]",
    )
    made.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="Any setting of Spark."
    )


def add_streaming_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--checkpoints", required=True, help="Where a job goes on from after its end."
    )
    made.add_argument("--watermark", default=WATERMARK, help="[%(default)s]")
    made.add_argument(
        "--per-batch", type=int, default=100_000, help="Records of a micro-batch. [%(default)s]"
    )
    made.add_argument(
        "--every", type=float, metavar="SECONDS", help="Go on for ever. [end when all is read]"
    )


def streaming(arguments: argparse.Namespace) -> Streaming:
    return Streaming(
        bootstrap_servers=arguments.bootstrap_servers,
        checkpoints=arguments.checkpoints,
        watermark=arguments.watermark,
        per_batch=arguments.per_batch,
        every=arguments.every,
    )


def start_session(arguments: argparse.Namespace, name: str) -> SparkSession:
    from pyk.spark import session

    told = dict(pair.split("=", 1) for pair in arguments.config)
    spark = session(
        f"pyk {name}",
        master=arguments.master,
        jars=[jar for jar in arguments.jars.split(",") if jar],
        config={**session_settings(arguments.master), **told},
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def session_settings(
    master: str | None, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What Spark is told beside what the user says. A cluster knows better how large it is."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    is_submitted = SUBMITTED_VARIABLE in environment
    if master.startswith(LOCAL) if master else not is_submitted:
        settings["spark.ui.enabled"] = "false"
        settings["spark.driver.memory"] = DRIVER_MEMORY
        settings["spark.sql.shuffle.partitions"] = "2"
    return settings


def read_stream(spark: SparkSession, how: Streaming, topic: str) -> DataFrame:
    from pyk.spark import kafka_options

    return (
        spark.readStream.format("kafka")
        .options(**kafka_options(how.bootstrap_servers))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", how.per_batch)
        .option("includeHeaders", True)
        .load()
    )


def read_topic(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """All that is in a topic now."""
    from pyk.spark import kafka_options

    return (
        spark.read.format("kafka")
        .options(**kafka_options(bootstrap_servers))
        .option("subscribe", topic)
        .option("includeHeaders", True)
        .load()
    )


def sink_options(bootstrap_servers: str) -> dict[str, str]:
    """What Spark's Kafka sink is told. Batches fill up for a moment: rows come in masses here, and
    each request costs the broker more than a row."""
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.linger.ms": "20",
        "kafka.batch.size": "262144",
        "kafka.compression.type": "lz4",
    }


def write_topic(frame: DataFrame, bootstrap_servers: str, topic: str) -> None:
    options = sink_options(bootstrap_servers)
    frame.write.format("kafka").options(**options).option("topic", topic).save()


def start(writer: DataStreamWriter, how: Streaming, name: str) -> StreamingQuery:
    checkpoint = f"{how.checkpoints.rstrip('/')}/{name}"
    named = writer.queryName(name).option("checkpointLocation", checkpoint)
    if how.every is None:
        return named.trigger(availableNow=True).start()
    return named.trigger(processingTime=f"{how.every} seconds").start()


def run_until_done(spark: SparkSession, query: StreamingQuery) -> None:
    """An interrupt stops the query, which goes on from its checkpoint when it is started again."""
    try:
        interruptible(query.awaitTermination, lambda: end(spark))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    spark.stop()


def interruptible(work: Callable[[], T], stop: Callable[[], object]) -> T:
    """What work returns. It has a thread of its own: an interrupt must not come in the middle of a
    call to Spark's JVM, after which the thread that made it can make no other. Then, `stop` is
    called to end the work, and KeyboardInterrupt is raised when it has ended."""
    interrupts: list[int] = []
    # A handler that only takes note: one that raises may do so anywhere.
    earlier = {
        number: signal.signal(number, lambda number, _: interrupts.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    future: Future[T] = Future()
    thread = Thread(target=_carry_out, args=(work, future))
    thread.start()
    while thread.is_alive() and not interrupts:
        thread.join(LOOK_EVERY)
    for number, handler in earlier.items():
        signal.signal(number, handler)
    if interrupts:
        stop()
        thread.join()
        raise KeyboardInterrupt
    return future.result()


def _carry_out(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as failure:
        future.set_exception(failure)


def end(spark: SparkSession) -> None:
    """Stop what runs, in the middle if need be."""
    for query in spark.streams.active:
        query.stop()
    spark.stop()
