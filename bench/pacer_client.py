"""Clients of confluent-kafka, each in a process of its own.

    python -m bench.pacer_client flood HOST:PORT TOPIC PARTITIONS SIZE COUNT ACKS
    python -m bench.pacer_client steady HOST:PORT TOPIC COUNT

`flood` writes as fast as it can and then reads as fast as it can; it prints the seconds of both.
`steady` sends a thousand records a second and reads them as they come; it prints how long they
took from the one to the other.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from time import perf_counter, sleep
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT: Final = 120.0
RATE: Final = 1000
WARM_UP: Final = 500
STEADY_BYTES: Final = 100


def flood(
    address: str, topic: str, partitions: int, size: int, count: int, acks: str
) -> dict[str, float]:
    wrote = write(address, topic, partitions, size, count, acks)
    return {"write": wrote, "read": read(address, topic, partitions, count)}


def write(address: str, topic: str, partitions: int, size: int, count: int, acks: str) -> float:
    producer = Producer(
        {
            **common(address),
            "acks": acks,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = os.urandom(size)
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT) == 0
    began = perf_counter()
    for number in range(count - partitions):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(WAIT) == 0
    return perf_counter() - began


def read(address: str, topic: str, partitions: int, count: int) -> float:
    consumer = reader(address, topic, partitions)
    began, found = perf_counter(), 0
    while found < count:
        found += sum(message.error() is None for message in consumer.consume(10_000, 1.0))
    return perf_counter() - began


def steady(address: str, topic: str, count: int) -> dict[str, float]:
    total = count + WARM_UP
    producer = Producer({**common(address), "acks": "all", "linger.ms": 0})
    latencies: list[float] = []
    consumer = reader(address, topic, 1)
    receiving = threading.Thread(target=receive, args=(consumer, total, latencies))
    receiving.start()
    began = perf_counter()
    for number in range(total):
        due = began + number / RATE
        while (early := due - perf_counter()) > 0:
            sleep(early)
        producer.produce(topic, struct.pack("d", perf_counter()).ljust(STEADY_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(WAIT) == 0
    receiving.join(WAIT)
    measured = sorted(latencies[WARM_UP:])
    assert len(measured) == count
    return {"p50": measured[count // 2] * 1e3, "p99": measured[count * 99 // 100] * 1e3}


def receive(consumer: Consumer, count: int, latencies: list[float]) -> None:
    while len(latencies) < count:
        message = consumer.poll(WAIT)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        latencies.append(perf_counter() - struct.unpack_from("d", value)[0])


def reader(address: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            **common(address),
            "group.id": "pacer",
            "enable.auto.commit": False,
            # When more has come than it holds, librdkafka does not ask again for a second.
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def common(address: str) -> dict[str, str | int | bool]:
    return {"bootstrap.servers": address, "log_level": 0}


def main() -> None:
    what, address, topic, *more = sys.argv[1:]
    if what == "flood":
        partitions, size, count, acks = more
        found = flood(address, topic, int(partitions), int(size), int(count), acks)
    else:
        found = steady(address, topic, int(more[0]))
    print(json.dumps(found), flush=True)
    # A consumer without a group coordinator takes its time to close.
    os._exit(0)


if __name__ == "__main__":
    main()
