"""The fixtures, as pytest finds and runs them in somebody's project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

USES = """
import os, sys
from confluent_kafka import Producer

def send(servers, topic, value):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, value)
    assert producer.flush(20) == 0

def test_the_shared_one(pyk_broker, pyk_topic):
    send(pyk_broker.bootstrap_servers, pyk_topic, b"v")
    assert [record.value for record in pyk_broker.records(pyk_topic)] == [b"v"]

def test_a_topic_for_each_test(pyk_broker, pyk_topic):
    assert pyk_topic.startswith("test_a_topic_for_each_test-")
    assert pyk_broker.records(pyk_topic) == []

def test_a_fresh_one(pyk_fresh_broker, pyk_broker):
    assert pyk_fresh_broker.port != pyk_broker.port

def test_a_process(pyk_subprocess):
    assert pyk_subprocess.pid != os.getpid()
    send(pyk_subprocess.bootstrap_servers, "orders", b"v")
    assert [record.value for record in pyk_subprocess.records("orders", 1)] == [b"v"]
"""


def run(
    home: Path, program: str, *arguments: str, ini: str = ""
) -> subprocess.CompletedProcess[str]:
    (home / "test_it.py").write_text(program)
    (home / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{ini}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=home, capture_output=True, text=True, timeout=110, check=False
    )


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    last = done.stdout.splitlines()[-1]
    return {what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|errors?)", last)}


@pytest.mark.parametrize("arguments", [(), ("-p", "no:trio"), ("-n", "3")], ids=str)
def test_the_fixtures_work(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, USES, *arguments)
    assert outcomes(done) == {"passed": 4}, done.stdout + done.stderr


def test_nothing_is_imported_until_a_fixture_is_used(tmp_path: Path) -> None:
    program = """
import sys
def test_it():
    found = {name for name in sys.modules if name.split(".")[0] in ("pyk", "trio", "msgspec")}
    assert found == {"pyk", "pyk.testing", "pyk.testing.plugin"}
"""
    done = run(tmp_path, program, "-p", "no:trio", "-p", "no:anyio", "-p", "no:hypothesispytest")
    assert outcomes(done) == {"passed": 1}, done.stdout


def test_each_worker_has_its_own(tmp_path: Path) -> None:
    program = """
import pytest
@pytest.mark.parametrize("number", range(4))
def test_it(number, pyk_broker, request):
    name = pyk_broker.create_topic(f"of-{number}")
    with open("ports", "a") as ports:
        ports.write(f"{request.config.workerinput['workerid']} {pyk_broker.port}\\n")
"""
    done = run(tmp_path, program, "-n", "2", "--dist", "each")
    assert outcomes(done) == {"passed": 8}, done.stdout
    pairs = {tuple(line.split()) for line in (tmp_path / "ports").read_text().splitlines()}
    assert len(pairs) == 2, "one broker for each worker"
    assert len({port for _, port in pairs}) == 2


def test_options_come_from_the_ini_file_and_the_command_line(tmp_path: Path) -> None:
    program = """
def test_it(pyk_broker):
    pyk_broker.create_topic("orders", -1)
    pyk_broker.produce("orders", b"v", partition=4)
    config = pyk_broker._broker.context.settings.config
    assert config.message_max_bytes == 1000
"""
    ini = "pyk_options =\n    num.partitions=3\n    message.max.bytes=1000\n"
    done = run(tmp_path, program, "--pyk-option", "num.partitions=5", ini=ini)
    assert outcomes(done) == {"passed": 1}, done.stdout


def test_what_one_test_breaks_is_not_the_next_ones(tmp_path: Path) -> None:
    program = """
def test_one(pyk_broker, pyk_topic):
    pyk_broker.faults.on("Produce").refuse("NOT_LEADER_OR_FOLLOWER")
    pyk_broker.faults.freeze()

def test_two(pyk_broker, pyk_topic):
    assert len(pyk_broker.requests) == 0
    assert pyk_broker.produce(pyk_topic, b"v")
    pyk_broker.kill()

def test_three(pyk_broker, pyk_topic):
    assert pyk_broker.produce(pyk_topic, b"v")
"""
    done = run(tmp_path, program)
    assert outcomes(done) == {"passed": 3}, done.stdout


def test_a_bug_is_an_error_of_the_test_that_met_it(tmp_path: Path) -> None:
    program = """
import socket

def test_one(pyk_broker, pyk_topic):
    def fail(*arguments):
        raise LookupError("a bug")
    pyk_broker._context.replicas.leader_of = fail
    import confluent_kafka
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": pyk_broker.bootstrap_servers, "message.timeout.ms": 300})
    producer.produce(pyk_topic, b"v")
    producer.flush(20)
    del pyk_broker._context.replicas.leader_of

def test_two(pyk_broker, pyk_topic):
    assert pyk_broker.produce(pyk_topic, b"v")
"""
    done = run(tmp_path, program)
    assert outcomes(done) == {"passed": 2, "error": 1}, done.stdout
    assert "ERROR test_it.py::test_one - pyk.testing.fault.BrokerFailed" in done.stdout


ASYNC = """
import aiokafka, pytest

async def send(servers, topic):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(topic, b"v")

{mark}
async def test_it(pyk_broker, pyk_topic{backend}):
    await send(pyk_broker.bootstrap_servers, pyk_topic)
    assert len(pyk_broker.records(pyk_topic)) == 1
"""


def test_with_anyios_plugin_on_asyncio(tmp_path: Path) -> None:
    program = ASYNC.format(mark="@pytest.mark.anyio", backend=", anyio_backend")
    program += '@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n'
    done = run(tmp_path, program, "-p", "no:trio")
    assert outcomes(done) == {"passed": 1}, done.stdout


def test_with_pytest_trio(tmp_path: Path) -> None:
    program = """
import trio
async def test_it(pyk_broker, pyk_topic):
    stream = await trio.open_tcp_stream(pyk_broker.host, pyk_broker.port)
    await stream.aclose()
    assert pyk_broker.produce(pyk_topic, b"v")
"""
    done = run(tmp_path, program, ini="trio_mode = true\n")
    assert outcomes(done) == {"passed": 1}, done.stdout
