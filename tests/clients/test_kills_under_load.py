"""kill -9 while a producer writes: what it was told is there, once, and in order."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.clients.brokers import running

KILLS = 3
SECONDS_BETWEEN = 0.7
WAIT = 60.0
IN_FLIGHT_MAX = 2_000


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def test_nothing_acknowledged_is_lost_or_there_twice(tmp_path: Path) -> None:
    port = a_free_port()
    address = f"127.0.0.1:{port}"
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    acknowledged: dict[int, int] = {}
    failures: list[object] = []

    def note(error: object, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is not None or not isinstance(value, bytes) or offset is None:
            failures.append(error)
        else:
            acknowledged[int(value)] = offset

    sent = 0
    for life in range(KILLS + 1):
        with running(tmp_path / "data", "--port", str(port)) as broker:
            until = time.monotonic() + SECONDS_BETWEEN
            while time.monotonic() < until:
                if len(producer) < IN_FLIGHT_MAX:
                    producer.produce("numbers", b"%d" % sent, partition=0, on_delivery=note)
                    sent += 1
                producer.poll(0.0005)
            if life < KILLS:
                broker.process.kill()
                broker.process.wait()
                continue
            assert producer.flush(WAIT) == 0
            found = everything(address)
    assert failures == []
    assert len(acknowledged) == sent
    assert [value for _, value in found] == list(range(sent)), "each once, and in order"
    assert {value: offset for offset, value in found} == acknowledged


def everything(address: str) -> list[tuple[int, int]]:
    """Offsets and values."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("numbers", 0, 0)])
    found: list[tuple[int, int]] = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None
        if message.error() is not None:
            return found
        value, offset = message.value(), message.offset()
        assert isinstance(value, bytes)
        assert offset is not None
        found.append((offset, int(value)))
