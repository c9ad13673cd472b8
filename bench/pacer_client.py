"""A confluent-kafka client that writes and reads as fast as it can, in a process of its own.

    python -m bench.pacer_client HOST:PORT TOPIC PARTITIONS SIZE COUNT ACKS

Prints a JSON object: seconds to write and seconds to read.
"""

from __future__ import annotations

import json
import os
import sys
from time import perf_counter

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT = 120.0


def main() -> None:
    address, topic, partitions, size, count, acks = sys.argv[1:]
    common: dict[str, str | int] = {"bootstrap.servers": address, "log_level": 0}
    wrote = write(common, topic, int(partitions), int(size), int(count), acks)
    read = consume(common, topic, int(partitions), int(count))
    print(json.dumps({"write": wrote, "read": read}), flush=True)
    # A consumer without a group coordinator takes its time to close.
    os._exit(0)


def write(
    common: dict[str, str | int], topic: str, partitions: int, size: int, count: int, acks: str
) -> float:
    producer = Producer(
        {**common, "acks": acks, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
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


def consume(common: dict[str, str | int], topic: str, partitions: int, count: int) -> float:
    consumer = Consumer(
        {
            **common,
            "group.id": "pacer",
            "enable.auto.commit": False,
            # When more has come than it holds, librdkafka does not ask again for a second.
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    began, found = perf_counter(), 0
    while found < count:
        found += sum(message.error() is None for message in consumer.consume(10_000, 1.0))
    return perf_counter() - began


if __name__ == "__main__":
    main()
