"""A Spark session for all tests of a run, since it takes long to start, and brokers.

`--broker kafka` has Apache Kafka in the place of pyk, to judge the tests of Spark's own source and
sink.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.kafka.server import kafka_server
from compat_tests.spark.jars import spark_jars
from compat_tests.spark.rows import Reader
from compat_tests.spark.topics import Topics
from pyk.spark import session
from pyk.spark.sessions import JARS_VARIABLE
from pyk.spark.setup import installed_spark
from pyk.testing import SubprocessBroker, serve_in_subprocess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
SECONDS_MAX = 600
QUICK_TO_COMPACT = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}

# `make compat` has no Spark, and Spark 3 has no data sources in Python.
if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
elif not installed_spark().has_python_sources:
    collect_ignore = ["test_pyk_source.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker", choices=("pyk", "kafka"), default="pyk", help="what Spark is to read and write"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            # PySpark leaves sockets to its Java open, and uses what Python and pandas give up.
            for ignored in ("ResourceWarning", "DeprecationWarning", "FutureWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{ignored}"))
            unraisable = "ignore::pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(unraisable))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="session", autouse=True)
def connector() -> None:
    """For this session, and for those of programs that tests start."""
    found = spark_jars()
    if found:
        os.environ[JARS_VARIABLE] = ",".join(map(str, found))


@pytest.fixture(scope="session")
def spark(connector: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made = session(
        "tests",
        master="local[2]",
        checkpoints=tmp_path_factory.mktemp("checkpoints"),
        config=SPARK_CONFIG,
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[SubprocessBroker]:
    """A broker for all tests, with its data in `data_dir`."""
    with serve_in_subprocess(QUICK_TO_COMPACT) as made:
        yield made


@pytest.fixture(scope="session")
def topics(request: pytest.FixtureRequest) -> Iterator[Topics]:
    """Of that broker, or of Kafka."""
    if request.config.getoption("broker") == "kafka":
        with kafka_server(QUICK_TO_COMPACT) as server:
            yield Topics(server.bootstrap_servers)
    else:
        yield Topics(request.getfixturevalue("broker").bootstrap_servers)


@pytest.fixture
def reader(spark: SparkSession, topics: Topics) -> Iterator[Reader]:
    yield Reader(spark, topics)
    for query in spark.streams.active:
        query.stop()
