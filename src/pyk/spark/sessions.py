"""A Spark session that reads and writes topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyk.spark.setup import (
    SparkMissing,
    SparkVersion,
    cache_directory,
    check_java,
    installed_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


JARS_VARIABLE: Final = "PYK_SPARK_JARS"
CHECKPOINTS: Final = "spark.pyk.checkpoints"
"""Not Spark's own setting, which also has queries without a name: under an id that no other run
finds, so that it begins anew, and leaves out or writes again what was read."""


def session(
    app_name: str = "pyk",
    *,
    master: str | None = None,
    checkpoints: Path | str | None = None,
    packages: Sequence[str] = (),
    jars: Sequence[Path | str] = (),
    config: Mapping[str, str] = {},
) -> SparkSession:
    """The session of this process, made if there is none.

    A master that is not given is the one that spark-submit says, or all cores of this machine.
    Under `checkpoints` are those of queries that have a name by `named`; one without any checkpoint
    is refused by Spark. `packages` are brought from Maven beside the Kafka connector; `jars` are
    files to take in its place, as are those that PYK_SPARK_JARS names, with commas. `config` is
    over everything else. It knows `format("pyk")` if Spark is new enough (`register`). Raise
    SparkMissing.
    """
    spark = installed_spark()
    check_java(spark)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            _stay_here()
    settings = {
        **_loaded(spark, packages, jars or jars_of_the_environment()),
        **({} if checkpoints is None else {CHECKPOINTS: str(checkpoints)}),
        **config,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    if spark.has_python_sources:
        register(made)
    return made


def named(stream: DataFrame, name: str) -> DataStreamWriter:
    """What writes a stream as a query that has a name, and its checkpoint by that name under those
    of the session: the next run goes on where this one ends. Raise ValueError if the session has no
    `checkpoints`."""
    if not name or "/" in name:
        raise ValueError(f"{name!r} is no name of a query that a directory could have")
    directory = stream.sparkSession.conf.get(CHECKPOINTS, None)
    if not directory:
        raise ValueError("the session has no checkpoints: session(checkpoints=...)")
    checkpoint = f"{directory.rstrip('/')}/{name}"
    return stream.writeStream.queryName(name).option("checkpointLocation", checkpoint)


def register(spark: SparkSession) -> None:
    """Let a session read data directories with `format("pyk")`. Raise SparkMissing before 4.0."""
    installed = installed_spark()
    if not installed.has_python_sources:
        raise SparkMissing(f'format("pyk") needs Spark 4.0 or newer, and this is {installed.text}')
    from pyk.spark.source import LogSource

    # Spark 4.1 and newer refuse a source that can do with conditions as long as this is off.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(LogSource)


def kafka_options(bootstrap_servers: str, *, committed: bool = True) -> dict[str, str]:
    """What `format("kafka")` is to be told of a broker, for its `options(**...)`.

    Readers see what is committed: nothing of transactions that were aborted or are open yet. Where
    nobody writes in transactions, that is everything.
    """
    isolation = "read_committed" if committed else "read_uncommitted"
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.isolation.level": isolation,
    }


def jars_of_the_environment() -> list[str]:
    return [jar for jar in os.environ.get(JARS_VARIABLE, "").split(",") if jar]


def _stay_here() -> None:
    """For a local master: nobody else needs to reach it, and its workers have what is installed
    here. Otherwise they are whatever python3 the path has."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _loaded(
    spark: SparkVersion, packages: Sequence[str], jars: Sequence[Path | str]
) -> dict[str, str]:
    wanted = list(packages) if jars else [spark.connector, *packages]
    settings = {"spark.jars.ivy": str(cache_directory() / spark.text)}
    if wanted:
        settings["spark.jars.packages"] = ",".join(wanted)
    if jars:
        settings["spark.jars"] = ",".join(str(jar) for jar in jars)
    return settings
