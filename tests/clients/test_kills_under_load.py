"""A broker that ends again and again while one client writes and another reads.

What the writer was told is there, once and in order. The reader goes on through all of it and sees
every offset once, in order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.clients.brokers import RunningBroker, running
from tests.clients.ports import free_ports
from tests.clients.stored import create_topic

if TYPE_CHECKING:
    from types import TracebackType

ENDS = 3
SECONDS_BETWEEN = 0.7
WAIT = 90.0
IN_FLIGHT_MAX = 2_000
PATIENT = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
TOPIC = "numbers"


class Writer:
    """Sends numbers, and remembers the offsets that it is told."""

    def __init__(self, address: str) -> None:
        self._producer = Producer(
            {**PATIENT, "bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1}
        )
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.failures: list[object] = []

    def write(self, is_enough: Callable[[], bool]) -> None:
        """For some time, and then until it is enough, or for very long."""
        began = time.monotonic()
        while (took := time.monotonic() - began) < SECONDS_BETWEEN or not is_enough():
            assert took < WAIT, "it is never enough"
            if len(self._producer) < IN_FLIGHT_MAX:
                self._producer.produce(
                    TOPIC, b"%d" % self.sent, partition=0, on_delivery=self._note
                )
                self.sent += 1
            self._producer.poll(0.0005)

    def finish(self) -> None:
        assert self._producer.flush(WAIT) == 0

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is not None or not isinstance(value, bytes) or offset is None:
            self.failures.append(error)
        else:
            self.acknowledged[int(value)] = offset


class Reader:
    """Reads from the start and goes on, in a thread of its own."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer(
            {
                **PATIENT,
                "bootstrap.servers": address,
                "group.id": "nobody's",
                "enable.auto.commit": False,
                # An offset that the broker does not know must not be passed over in silence.
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self.found: list[tuple[int, int]] = []
        """Offsets and values."""
        self.failures: list[KafkaError] = []
        self._has_ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended = True
        self._thread.join()
        self._consumer.close()

    def wait_for(self, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.found) >= count, WAIT)

    def _run(self) -> None:
        while not self._has_ended:
            for message in self._consumer.consume(1_000, 0.1):
                error, value, offset = message.error(), message.value(), message.offset()
                with self._changed:
                    if error is not None:
                        self.failures.append(error)
                    elif isinstance(value, bytes) and offset is not None:
                        self.found.append((offset, int(value)))
                    self._changed.notify_all()


def kill(broker: RunningBroker) -> None:
    broker.process.kill()
    broker.process.wait()


def stop(broker: RunningBroker) -> None:
    broker.process.terminate()
    assert broker.process.wait(20) == 0


@pytest.mark.parametrize("end", [kill, stop])
def test_nothing_acknowledged_is_lost_or_there_twice_or_out_of_order(
    tmp_path: Path, end: Callable[[RunningBroker], None]
) -> None:
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    with running(tmp_path / "data", "--port", str(port)):
        create_topic(address, TOPIC)
    writer = Writer(address)
    with Reader(address) as reader:
        for life in range(ENDS + 1):
            read_before = len(reader.found)
            with running(tmp_path / "data", "--port", str(port)) as broker:
                # In every life the reader goes on, too, however slowly it comes back.
                writer.write(lambda before=read_before: len(reader.found) > before)  # type: ignore[misc]
                if life < ENDS:
                    end(broker)
                    continue
                writer.finish()
                reader.wait_for(writer.sent)
                with Reader(address) as afterwards:
                    afterwards.wait_for(writer.sent)
    assert writer.failures == []
    assert len(writer.acknowledged) == writer.sent
    expected = [(number, number) for number in range(writer.sent)]
    assert afterwards.found == expected, "each once, and in order"
    assert {value: offset for offset, value in expected} == writer.acknowledged
    assert reader.failures == []
    assert reader.found == expected, "a reader that goes on sees the same"
