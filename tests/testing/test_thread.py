"""A broker in a thread: its life, and what is in it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pyk.handlers.table import SERVED
from pyk.testing import (
    ApiKey,
    BrokerFailed,
    ErrorCode,
    KafkaError,
    Record,
    ThreadBroker,
    serve_in_thread,
)
from pyk.testing.wire import Wire
from tests.clients.raw import RawClient
from tests.testing.asking import produce, write_transactions


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread() as broker:
        yield broker


def test_what_is_written_is_read_with_its_place(broker: ThreadBroker) -> None:
    topic = broker.create_topic("orders", partitions=2)
    whole = Record(key=b"k", value=None, headers=(("h", b"1"), ("h", None)), timestamp=77)
    written = broker.produce(topic, b"bytes", "text", whole)
    assert [record.offset for record in written] == [0, 1, 2]
    broker.produce(topic, b"there", partition=1)
    broker.produce(topic, Record(value=b"here", partition=1))
    found = broker.records(topic)
    assert found[:3] == written
    assert [(each.partition, each.offset, each.value) for each in found] == [
        (0, 0, b"bytes"),
        (0, 1, b"text"),
        (0, 2, None),
        (1, 0, b"there"),
        (1, 1, b"here"),
    ]
    assert broker.records(topic, partition=1, start=1) == found[4:]
    assert broker.records(topic, 2) == found[:2]


def test_a_reader_waits_for_as_many_as_it_wants(broker: ThreadBroker) -> None:
    topic = broker.topic("orders", partitions=2)
    later = threading.Timer(0.05, lambda: broker.produce(topic, b"late", partition=1))
    later.start()
    assert [record.value for record in broker.records(topic, 1)] == [b"late"]
    later.join()
    with pytest.raises(TimeoutError, match=f"{topic} has 1 records after 0.01 s, not 2"):
        broker.records(topic, 2, timeout=0.01)


def test_refusals_are_kafkas(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    with pytest.raises(KafkaError) as refused:
        broker.create_topic("orders")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError, match="no topic 'nothing'"):
        broker.records("nothing")
    with pytest.raises(KafkaError, match="none of number 1"):
        broker.produce("orders", b"v", partition=1)
    with pytest.raises(KafkaError, match=r"retention\.ms"):
        broker.create_topic("other", configs={"retention.ms": "long"})


def test_a_batch_that_a_client_compressed_is_read(broker: ThreadBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "lz4"}
    )
    for number in range(100):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(10) == 0
    assert [each.value for each in broker.records("orders", 100)] == [b"%d" % n for n in range(100)]


def test_topics_are_there_from_the_start() -> None:
    with serve_in_thread(topics={"a": 3, "b": 1}) as broker:
        broker.produce("a", b"v", partition=2)
    with serve_in_thread(topics=["c"]) as broker:
        assert broker.records("c") == []


def test_kafkas_keys_configure_it() -> None:
    config = {"auto.create.topics.enable": "false", "num.partitions": "4"}
    with serve_in_thread(config, topics={"some": -1}) as broker:
        broker.produce("some", b"v", partition=3)


@pytest.mark.parametrize(
    ("config", "said"), [({"no.such.key": "1"}, "no.such.key"), ({"num.partitions": "x"}, "x")]
)
def test_a_slip_in_the_configuration_is_an_error(config: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said):
        serve_in_thread(config)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve_in_thread(port=taken.getsockname()[1])


def test_a_directory_in_use_is_an_error(broker: ThreadBroker) -> None:
    with pytest.raises(Exception, match="in use by another broker"):
        serve_in_thread(data_dir=broker.data_dir)


def test_its_directory_goes_with_it_unless_it_was_given(tmp_path: Path) -> None:
    with serve_in_thread() as broker:
        broker.produce("orders", b"v")
        temporary = broker.data_dir
    assert not temporary.exists()
    with serve_in_thread(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", b"v")
    with serve_in_thread(data_dir=tmp_path / "data") as broker:
        assert [record.value for record in broker.records("orders")] == [b"v"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_comes_back_on_the_same_port_with_the_same_data(end: str, broker: ThreadBroker) -> None:
    port = broker.port
    broker.produce("orders", b"before")
    getattr(broker, end)()
    assert not broker.is_running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, port))
    with pytest.raises(BrokerFailed):
        broker.records("orders")
    broker.start()
    assert broker.port == port
    with RawClient(broker.bootstrap_servers) as client:
        assert produce(client, "orders", 0) == {0: 0}
    assert len(broker.records("orders")) == 2


def test_only_a_stop_leaves_the_mark_of_a_clean_shutdown(broker: ThreadBroker) -> None:
    broker.stop()
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    broker.kill()
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_clients_that_wait_are_cut_off_by_a_stop(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    with broker.faults.on("Produce").hold() as held, RawClient(broker.bootstrap_servers) as client:
        answer = threading.Thread(target=lambda: _ignore_end(client))
        answer.start()
        held.wait()
        broker.stop()
        answer.join(10)
        assert not answer.is_alive()


def _ignore_end(client: RawClient) -> None:
    with pytest.raises((EOFError, ConnectionError)):
        produce(client, "orders", 0)


def test_it_says_what_it_is(broker: ThreadBroker) -> None:
    assert repr(broker).startswith(f"<pyk broker in a thread, serves on 127.0.0.1:{broker.port}, /")
    broker.close()
    assert "is closed" in repr(broker)
    broker.close()
    with pytest.raises(BrokerFailed, match="closed"):
        broker.start()


class Bug(Exception):
    """Of a handler's."""


@pytest.fixture
def buggy() -> ThreadBroker:
    """One that has failed to handle a request."""

    def fail(*arguments: Any) -> None:
        raise Bug("a bug")

    broker = serve_in_thread(topics=["orders"])
    broker._context.replicas.leader_of = fail  # type: ignore[method-assign, assignment]
    with RawClient(broker.bootstrap_servers) as client:
        assert produce(client, "orders", 0) == {0: ErrorCode.UNKNOWN_SERVER_ERROR}
    return broker


def test_a_bug_in_a_handler_fails_the_test(buggy: ThreadBroker) -> None:
    with pytest.raises(BrokerFailed, match="a bug") as failed:
        buggy.close()
    assert isinstance(failed.value.__cause__, ExceptionGroup)
    assert not buggy.data_dir.exists()


def test_a_bug_does_not_hide_what_the_test_found(buggy: ThreadBroker) -> None:
    with pytest.raises(ZeroDivisionError) as failed, buggy:
        _ = 1 / 0
    assert "a bug" in failed.value.__notes__[0]


def test_a_broker_that_dies_by_itself_fails_the_test(broker: ThreadBroker) -> None:
    assert broker._run is not None
    with pytest.raises(BrokerFailed):
        broker._run.call(_die_later, 10)
    with pytest.raises(BrokerFailed, match="does not run"):
        broker.records("orders")
    with pytest.raises(BrokerFailed, match="died") as failed:
        broker.close()
    assert "dead" in repr(failed.value.__cause__)


async def _die_later() -> None:
    raise SystemExit("dead")


def test_a_test_on_asyncio_uses_it_as_it_is() -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def run() -> None:
        with serve_in_thread() as broker:
            servers = broker.bootstrap_servers
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait("orders", b"v")
            assert [record.value for record in broker.records("orders")] == [b"v"]

    asyncio.run(run())


async def test_a_test_on_trio_can_use_it_too() -> None:
    with serve_in_thread() as broker:
        assert broker.produce("orders", b"v")
        await trio.lowlevel.checkpoint()


LEFT_OPEN = """
from pyk.testing import serve_in_thread
broker = serve_in_thread()
broker.produce("orders", b"v")
broker.faults.freeze()
print(broker.data_dir)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_one_that_nobody_closes_ends_with_python(ending: str) -> None:
    command = [sys.executable, "-c", LEFT_OPEN.format(ending=ending)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == {"": 0, "raise SystemExit(3)": 3, "1 / 0": 1}[ending], done.stderr
    assert not Path(done.stdout.strip()).exists()


IMPORTED = """
import json, sys
import msgspec, trio
before = set(sys.modules)
from pyk.testing import serve_in_thread
with serve_in_thread() as broker:
    started = set(sys.modules)
    from pyk.testing.wire import Wire
    with Wire((broker.host, broker.port), 10) as client:
        client.produce("orders", (b"v",), 0)
    asked = {request.api for request in broker.requests.of()}
    answered = set(sys.modules)
    broker.produce("orders", b"v")
    used = set(sys.modules)
found = {"started": started, "answered": answered, "used": used}
print(json.dumps({name: sorted(each - before) for name, each in found.items()}))
print(json.dumps(sorted(asked)))
"""
SLOW_TO_IMPORT = {
    "asyncio", "dataclasses", "multiprocessing", "pyk.cli", "pyk.client", "pyk.daemon",
    "pyk.telemetry", "pytest", "_pytest", "trio.testing",
}  # fmt: skip
"""What a broker in a test can do without. To declare a dataclass takes as long as forty structs."""


def test_it_imports_what_it_needs_to_start_and_then_what_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60, check=True
    )
    found, asked = map(json.loads, done.stdout.splitlines())

    def among(moment: str, package: str, names: set[str]) -> set[str]:
        return names & {name.removeprefix(package) for name in found[moment]}

    handlers = {key.name.lower() for key in SERVED}
    messages = {key.name.lower() for key in ApiKey}
    assert among("started", "pyk.handlers.", handlers) == set()
    assert among("started", "pyk.wire.messages.", messages) == set()
    assert not SLOW_TO_IMPORT & set(found["used"])
    assert asked == ["CreateTopics", "Metadata", "Produce"]
    answering = {"create_topics", "metadata", "produce"}
    assert among("answered", "pyk.handlers.", handlers) == answering


def test_a_child_of_a_fork_leaves_it_alone() -> None:
    program = """
import os, sys
from pyk.testing import serve_in_thread
with serve_in_thread() as broker:
    child = os.fork()
    if not child:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    broker.produce("orders", b"v")
    assert len(broker.records("orders")) == 1
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_hundred_brokers_leave_nothing_behind(tmp_path: Path) -> None:
    def left() -> tuple[int, int, int]:
        return (
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            len(list(tmp_path.iterdir())),
        )

    def use_one() -> None:
        with serve_in_thread() as broker, RawClient(broker.bootstrap_servers) as client:
            broker.create_topic("orders", 2)
            produce(client, "orders", 0, 1)
            broker.restart()
            broker.produce("orders", b"v")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        use_one()
        before = left()
        gc.disable()
        try:
            for _ in range(100):
                use_one()
            # Without the garbage collector: what is open is closed, and not just forgotten.
            assert left() == before
        finally:
            gc.enable()


def test_records_are_those_that_are_committed_unless_all_are_wanted() -> None:
    with serve_in_thread(topics=["orders"]) as broker:
        write_transactions(broker.bootstrap_servers, "orders")
        assert [each.value for each in broker.records("orders", 1)] == [b"committed"]
        with pytest.raises(TimeoutError, match="has 1 records"):
            broker.records("orders", 2, timeout=0.01)
        everything = [b"aborted", b"committed", b"open"]
        assert [each.value for each in broker.records("orders", committed=False)] == everything


def test_who_waits_for_records_behind_a_marker_asks_only_now_and_then() -> None:
    with serve_in_thread(topics=["orders"]) as broker:
        write_transactions(broker.bootstrap_servers, "orders")
        assert len(broker.records("orders", 1)) == 1
        broker.requests.clear()
        with Wire((broker.host, broker.port), 10) as wire, pytest.raises(TimeoutError):
            wire.records("orders", 2, None, 0, time.monotonic() + 1, committed=True)
        assert len(broker.requests.of("Fetch")) < 10, "each waits for half a second"
