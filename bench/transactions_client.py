"""Transactional producers, in a process of their own.

    python -m bench.transactions_client flood HOST:PORT TOPIC COUNT TURN
    python -m bench.transactions_client commits HOST:PORT TOPIC COUNT PARTITIONS SOURCE TURN
    python -m bench.transactions_client wire HOST:PORT TOPIC COUNT PARTITIONS SOURCE TURN VERSION
    python -m bench.transactions_client many HOST:PORT TOPIC COUNT PRODUCERS TURN VERSION
    python -m bench.transactions_client ids HOST:PORT TOPIC COUNT

`flood` writes as fast as confluent-kafka can, first without transactions and then in some of
100 ms, and prints the seconds of both. `commits` has confluent-kafka make one small transaction
after another, each with a record for every partition and, if SOURCE is not "-", the offset of one
that was read there; it prints how long one takes. `wire` does the same with raw requests and waits
for nothing in between: who is told to ask again asks at once. `many` does it with many producers at
once, `ids` with many ids one after another.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector
from time import perf_counter
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.transactions_wire import Steps, WireProducer, answer_all, next_step
from tests.clients.raw import RawClient

WAIT: Final = 60.0
SIZE: Final = 1000
TRANSACTION: Final = 0.1
WARM_UP: Final = 20
GROUP: Final = "copying"
NOWHERE: Final = "-"


def flood(address: str, topic: str, count: int, turn: str) -> dict[str, float]:
    plain = {"bootstrap.servers": address, "log_level": 0, "enable.idempotence": True}
    plain |= {"queue.buffering.max.messages": 1_000_000}
    idempotent = Producer(plain)
    wrote = _timed(idempotent, topic, count, lambda: None, lambda: idempotent.flush(WAIT))
    producer = Producer({**plain, "transactional.id": f"flood-{turn}"})
    producer.init_transactions(WAIT)
    producer.begin_transaction()
    began = perf_counter()

    def commit_in_time() -> None:
        nonlocal began
        if perf_counter() - began >= TRANSACTION:
            producer.commit_transaction(WAIT)
            producer.begin_transaction()
            began = perf_counter()

    took = _timed(producer, topic, count, commit_in_time, lambda: producer.commit_transaction(WAIT))
    return {"transactional": took, "idempotent": wrote}


def _timed(
    producer: Producer,
    topic: str,
    count: int,
    now_and_then: Callable[[], object],
    finish: Callable[[], object],
) -> float:
    """The seconds that it takes to write so many records."""
    value = os.urandom(SIZE)
    producer.produce(topic, value)
    assert producer.flush(WAIT) == 0
    began = perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 100 == 0:
            producer.poll(0)
            now_and_then()
    finish()
    assert len(producer) == 0
    return perf_counter() - began


def commits(
    address: str, topic: str, count: int, partitions: int, source: str, turn: str
) -> dict[str, float]:
    common = {"bootstrap.servers": address, "log_level": 0}
    producer = Producer({**common, "transactional.id": f"commits-{partitions}-{source}-{turn}"})
    producer.init_transactions(WAIT)
    consumer = Consumer({**common, "group.id": GROUP, "enable.auto.commit": False})
    if source != NOWHERE:
        consumer.assign([TopicPartition(source, 0, 0)])

    def transact() -> None:
        producer.begin_transaction()
        if source != NOWHERE:
            message = consumer.poll(WAIT)
            assert message is not None
            read = [TopicPartition(source, 0, (message.offset() or 0) + 1)]
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(read, metadata, WAIT)
        for partition in range(partitions):
            producer.produce(topic, bytes(SIZE), partition=partition)
        producer.commit_transaction(WAIT)

    return _latencies(transact, count)


def wire(
    address: str, topic: str, count: int, partitions: int, source: str, turn: str, version: str
) -> dict[str, float]:
    transactional_id = f"wire-{version}-{partitions}-{source}-{turn}"
    producer = WireProducer(transactional_id, topic, int(version))
    with RawClient(address) as client:
        answer_all(client, producer.begin())
        if source != NOWHERE:
            answer_all(client, producer.find_group(GROUP))
        numbers, offsets = range(partitions), iter(range(count + WARM_UP))

        def transact() -> None:
            offset = next(offsets)
            copied = None if source == NOWHERE else (source, GROUP, offset)
            answer_all(client, producer.transaction(numbers, copied))

        return _latencies(transact, count)


def _latencies(transact: Callable[[], None], count: int) -> dict[str, float]:
    took = []
    for _ in range(count + WARM_UP):
        began = perf_counter()
        transact()
        took.append(perf_counter() - began)
    took = sorted(took[WARM_UP:])
    return {"p50": took[count // 2] * 1000, "p99": took[count * 99 // 100] * 1000}


def many(
    address: str, topic: str, count: int, producers: int, turn: str, version: str
) -> dict[str, float]:
    """Each of them makes so many transactions, in a partition that it shares with some others."""
    with ExitStack() as stack, DefaultSelector() as selector:
        clients = [stack.enter_context(RawClient(address)) for _ in range(producers)]
        working: list[tuple[RawClient, Steps]] = []
        for number, client in enumerate(clients):
            producer = WireProducer(f"many-{version}-{turn}-{number}", topic, int(version))
            answer_all(client, producer.begin())
            working.append((client, _repeated(producer, number % 10, count)))
        began = perf_counter()
        for client, steps in working:
            asked = next_step(client, steps, None)
            selector.register(client, EVENT_READ, (steps, asked))
        while selector.get_map():
            for key, _ in selector.select(WAIT):
                client, (steps, asked) = key.fileobj, key.data  # type: ignore[assignment]
                asked = next_step(client, steps, client.receive(*asked))
                if asked is None:
                    selector.unregister(client)
                else:
                    selector.modify(client, EVENT_READ, (steps, asked))
        return {"transaction": (perf_counter() - began) / (count * producers) * 1e6}


def _repeated(producer: WireProducer, partition: int, count: int) -> Steps:
    for _ in range(count):
        yield from producer.transaction([partition])


def ids(address: str, topic: str, count: int) -> dict[str, float]:
    began = perf_counter()
    with RawClient(address) as client:
        for number in range(count):
            producer = WireProducer(f"ids-{number}", topic, 2)
            answer_all(client, producer.begin())
            answer_all(client, producer.transaction([number % 10]))
    return {"seconds": perf_counter() - began}


def main() -> None:
    what, address, topic, count, *more = sys.argv[1:]
    found = {
        "flood": lambda: flood(address, topic, int(count), *more),
        "commits": lambda: commits(address, topic, int(count), int(more[0]), *more[1:]),
        "wire": lambda: wire(address, topic, int(count), int(more[0]), *more[1:]),
        "many": lambda: many(address, topic, int(count), int(more[0]), *more[1:]),
        "ids": lambda: ids(address, topic, int(count)),
    }[what]()
    print(json.dumps(found), flush=True)
    # A consumer without a group takes its time to close.
    os._exit(0)


if __name__ == "__main__":
    main()
