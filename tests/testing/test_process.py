"""A broker in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyk.testing import BrokerFailed, KafkaError, Record, SubprocessBroker, serve_in_subprocess
from tests.clients.raw import RawClient
from tests.testing.asking import produce, write_transactions


@pytest.fixture(scope="module")
def broker() -> Iterator[SubprocessBroker]:
    with serve_in_subprocess(topics={"seeded": 2}) as broker:
        yield broker


def test_what_is_written_is_read_with_its_place(broker: SubprocessBroker) -> None:
    topic = broker.topic("orders", partitions=2)
    whole = Record(key=b"k", value=None, headers=(("h", b"1"),), timestamp=77, partition=1)
    written = broker.produce(topic, b"a", "b", whole)
    assert [(each.partition, each.offset) for each in written] == [(0, 0), (0, 1), (1, 0)]
    assert broker.records(topic) == written
    assert broker.records(topic, 3) == written
    assert broker.records(topic, partition=0, start=1) == written[1:2]
    with pytest.raises(TimeoutError, match="has 3 records, not 4"):
        broker.records(topic, 4, timeout=0.01)


def test_refusals_are_kafkas(broker: SubprocessBroker) -> None:
    with pytest.raises(KafkaError, match="exists"):
        broker.create_topic("seeded")
    with pytest.raises(KafkaError, match="no topic 'nothing'"):
        broker.records("nothing")


def test_a_topic_that_is_not_there_is_made(broker: SubprocessBroker) -> None:
    broker.produce("made", b"v")
    assert [each.value for each in broker.records("made")] == [b"v"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_comes_back_on_the_same_port_with_the_same_data(
    end: str, broker: SubprocessBroker
) -> None:
    topic, port, pid = broker.topic(), broker.port, broker.pid
    broker.produce(topic, b"before")
    getattr(broker, end)()
    assert not broker.is_running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, port))
    broker.start()
    assert broker.port == port
    assert broker.pid != pid
    assert [each.value for each in broker.records(topic)] == [b"before"]


def test_frozen_it_answers_nobody(broker: SubprocessBroker) -> None:
    topic = broker.topic()
    with RawClient(broker.bootstrap_servers) as client:
        client._socket.settimeout(0.2)
        with broker.freeze(), pytest.raises(TimeoutError):
            produce(client, topic, 0)
    assert len(broker.records(topic, 1)) == 1
    broker.freeze()
    broker.restart()
    assert len(broker.records(topic)) == 1


def test_one_that_ends_by_itself_fails_the_test() -> None:
    broker = serve_in_subprocess()
    os.kill(broker.pid, signal.SIGKILL)
    while broker.is_running:
        time.sleep(0.01)
    with pytest.raises(BrokerFailed, match="by itself, with -9"):
        broker.close()


def test_one_that_cannot_start_says_why(broker: SubprocessBroker) -> None:
    with pytest.raises(BrokerFailed, match="in use by another broker"):
        serve_in_subprocess(data_dir=broker.data_dir)
    with pytest.raises(KafkaError, match=r"no\.such\.key"):
        serve_in_subprocess({"no.such.key": "1"})


def test_it_dies_with_the_process_that_started_it() -> None:
    program = """
import os
from pyk.testing import serve_in_subprocess
print(serve_in_subprocess().pid, flush=True)
os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and _state(pid) != "Z":
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_transactions_are_read_past_their_ends_and_only_what_is_committed(
    broker: SubprocessBroker,
) -> None:
    topic = broker.topic()
    write_transactions(broker.bootstrap_servers, topic)
    assert [each.value for each in broker.records(topic, 1)] == [b"committed"]
    assert [each.value for each in broker.records(topic)] == [b"committed"]
    everything = [b"aborted", b"committed", b"open"]
    assert [each.value for each in broker.records(topic, committed=False)] == everything
    broker.produce(topic, b"after")
    assert [each.value for each in broker.records(topic, committed=False)][-1] == b"after"
    with pytest.raises(TimeoutError, match="has 1 records, not 2"):
        broker.records(topic, 2, timeout=0.01)


def test_one_that_does_not_get_ready_is_given_up(tmp_path: Path) -> None:
    # Whoever opens it waits until somebody writes.
    os.mkfifo(tmp_path / "replication-offset-checkpoint")
    with pytest.raises(BrokerFailed, match=r"nothing in 3\.0 s"):
        serve_in_subprocess(data_dir=tmp_path, start_timeout=3.0)
