"""How far a query is, as the broker shows it: Spark commits no offsets that would tell."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from compat_tests.spark.rows import Reader, texts
from compat_tests.spark.topics import Topics
from tests.clients.brokers import running
from tests.clients.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = re.compile(
    r'pyk_reader_(lag|offset)\{client_id="([^"]*)",topic="([^"]*)",partition="0"\} (\d+)'
)


def shown(port: int, topic: str) -> dict[str, int]:
    """What the metrics say of Spark's executors, by what it is."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    return {
        what: int(number)
        for what, client_id, name, number in SAMPLE.findall(text)
        if name == topic and client_id.startswith("consumer-spark-kafka-source-")
    }


def test_the_broker_shows_how_far_a_query_has_read(spark: SparkSession, tmp_path: Path) -> None:
    [port] = free_ports(1)
    with running(tmp_path / "data", "--http-port", str(port)) as broker:
        reader = Reader(spark, Topics(broker.address))
        topic = reader.topics.create("shown")
        reader.topics.write(topic, range(10))
        with reader.begin(reader.stream(subscribe=topic, startingOffsets="earliest")) as found:
            assert found.values() == texts(range(10))
        assert shown(port, topic) == {"offset": 10, "lag": 0}
        reader.topics.write(topic, range(5))
        assert shown(port, topic) == {"offset": 10, "lag": 5}
