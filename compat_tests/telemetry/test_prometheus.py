"""Prometheus itself, from Debian's package, scrapes a broker with the configuration in deploy/."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from tests.clients.brokers import RunningBroker, running
from tests.clients.ports import free_ports

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
WAIT = 90.0
SCRAPE_INTERVAL = "1s"


@contextmanager
def prometheus(home: Path, target: str) -> Iterator[str]:
    """Its address, once it answers."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.fail("there is no prometheus; on Debian: apt install prometheus")
    text = (DEPLOY / "prometheus.yml").read_text()
    text = text.replace("localhost:9644", target).replace("15s", SCRAPE_INTERVAL)
    (home / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "alerts.yml", home)
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = [program, f"--config.file={home / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={home / 'tsdb'}", f"--web.listen-address={address}"]
    with (home / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(20)


def ask(address: str, path: str) -> Any:
    """What it answers, once it does."""
    deadline = time.monotonic() + WAIT
    while True:
        try:
            with urlopen(f"http://{address}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except (URLError, ConnectionError):
            assert time.monotonic() < deadline, "it does not answer"
            time.sleep(0.1)


def value_of(address: str, query: str, wanted: float) -> float:
    """What a query comes to, when it is as wanted or after a long time."""
    deadline = time.monotonic() + WAIT
    while True:
        found = ask(address, f"query?query={quote(query)}")["result"]
        value = float(found[0]["value"][1]) if found else float("nan")
        if value == wanted or time.monotonic() > deadline:
            return value
        time.sleep(0.1)


def metrics_of(broker: RunningBroker) -> str:
    assert broker.process.stdout is not None
    said = broker.process.stdout.readline()
    return said.removeprefix("Metrics are at http://").removesuffix("/metrics\n")


def test_prometheus_reads_what_a_broker_shows_and_its_alerts_are_calm(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--http-port", "0") as broker:
        producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        for number in range(100):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(WAIT) == 0
        with prometheus(tmp_path, metrics_of(broker)) as address:
            assert value_of(address, 'up{job="pyk"}', 1) == 1
            ends = 'pyk_partition_log_end_offset{topic="orders"}'
            assert value_of(address, ends, 100) == 100
            records = 'sum(pyk_partition_records_in_total{topic="orders"})'
            assert value_of(address, records, 100) == 100
            (target,) = ask(address, "targets")["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            alerts = ask(address, "rules")["groups"][0]["rules"]
            assert len(alerts) == (DEPLOY / "alerts.yml").read_text().count("- alert: ")
            states = {alert["name"]: alert["state"] for alert in alerts}
            assert set(states.values()) == {"inactive"}, states
