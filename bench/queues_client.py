"""Workers of share groups, in a process of their own.

    python -m bench.queues_client work wire HOST:PORT TOPIC GROUP RECORDS WORKERS AT_ONCE PID
    python -m bench.queues_client work librdkafka HOST:PORT TOPIC GROUP RECORDS WORKERS AT_ONCE
    python -m bench.queues_client latency wire|librdkafka HOST:PORT TOPIC GROUP RECORDS

`work` prints the microseconds for a record, while so many are delivered and acknowledged, and those
of the broker's processor, whose process is PID. `latency` writes one record after another, and
prints how long it takes until each is delivered. On the wire a worker says what became of records
with its next fetch.
"""

from __future__ import annotations

import json
import select
import selectors
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any, Final

from confluent_kafka import Producer, ShareConsumer

from bench.contestants import Contestant
from pyk.wire.apis import ApiKey
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from tests.clients.queueing.member import Got, Member, Said
from tests.clients.raw import RawClient

WAIT: Final = 60.0
SETTLED: Final = 1.5
"""Seconds without a change after which a group has come together."""
PAUSE: Final = 0.005
"""Between two records, so that who waits for one is waiting."""
WARM_UP: Final = 50
STAMP: Final = struct.Struct(">d92x")


def work_on_the_wire(
    address: str, topic: str, group: str, records: int, workers: int, at_once: int, pid: int
) -> dict[str, float]:
    broker = Contestant("", address, pid, 0.0)
    with ExitStack() as stack, selectors.DefaultSelector() as ready:
        members = [
            stack.enter_context(Member(address, group, topic, f"worker-{number}"))
            for number in range(workers)
        ]
        bring_together(members)
        began, spent = perf_counter(), broker.cpu_seconds()
        for member in members:
            ready.register(member, selectors.EVENT_READ, member)
            member.ask_for(records_max=at_once)
        left = records
        while True:
            for key, _ in ready.select(WAIT):
                member = key.data
                got, _ = member.receive()
                left -= sum(each.last - each.first + 1 for each in got)
                if left <= 0:
                    # Not with a fetch, which would wait for records that do not come.
                    member.acknowledge(accepted(got))
                    took = perf_counter() - began, broker.cpu_seconds() - spent
                    return {"record": took[0] / records * 1e6, "CPU": took[1] / records * 1e6}
                member.ask_for(accepted(got), records_max=at_once)


def bring_together(members: Sequence[Member]) -> None:
    """Until all have their partitions, and nothing changes any more."""
    for member in members:
        member.join()
    before, since = [member.assigned for member in members], perf_counter()
    while perf_counter() - since < SETTLED:
        time.sleep(0.1)
        for member in members:
            member.heartbeat()
        if before != (found := [member.assigned for member in members]):
            before, since = found, perf_counter()


def accepted(got: Sequence[Got]) -> list[Said]:
    return [Said(partition, first, last) for partition, first, last, _ in got]


def work_by_librdkafka(
    address: str, topic: str, group: str, records: int, workers: int, at_once: int
) -> dict[str, float]:
    """A thread for each, which accepts what it has with its next poll. They begin together, when
    each has had some: how soon a group comes together is another matter."""
    at: list[float] = []
    """When they have begun, and then when some were delivered."""
    left = [records]
    together = threading.Barrier(workers, action=lambda: at.append(perf_counter()))

    def work() -> None:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "max.poll.records": at_once,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not consumer.poll(0.2):
            pass
        consumer.commit_sync(WAIT)  # The others are to have some, too.
        together.wait(WAIT)
        while left[0] > 0:
            found = len(consumer.poll(0.2))
            if found and left[0] > 0:
                at.append(perf_counter())
                left[0] -= found

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"record": (at[-1] - at[0]) / records * 1e6}


def latency_on_the_wire(address: str, topic: str, group: str, records: int) -> dict[str, float]:
    """From when a record is sent until there is an answer with it to be read. What it takes this
    client to make the one and to read the other is not in it."""
    took = []
    said: list[Said] = []
    with Member(address, group, topic, "worker") as member, RawClient(address) as writer:
        bring_together([member])
        frame, ready = writer.frame(ApiKey.PRODUCE, 9, one_record(topic)), select.poll()
        ready.register(member, select.POLLIN)
        for _ in range(records + WARM_UP):
            member.ask_for(said, max_wait_ms=int(WAIT * 1000))
            time.sleep(PAUSE)
            began = perf_counter()
            writer.send_frame(frame)
            ready.poll(WAIT * 1000)
            arrived = perf_counter() - began
            got, _ = member.receive()
            if got:
                took.append(arrived)
            while not got:
                # A broker may answer with nothing, and have the record for who asks again.
                got, _ = member.fetch(max_wait_ms=int(WAIT * 1000))
            said = accepted(got)
            writer.receive(ApiKey.PRODUCE, 9)
    return percentiles(took)


def one_record(topic: str) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, bytes(STAMP.size))])
    data = [PartitionProduceData(index=0, records=batch)]
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def latency_by_librdkafka(address: str, topic: str, group: str, records: int) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
    consumer = ShareConsumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    took: list[float] = []

    def read() -> None:
        # What was written before the group had come together has waited for that.
        while not consumer.poll(0.5):
            pass
        joined = perf_counter()
        while len(took) < records + WARM_UP:
            sent = [sent_at(each.value() or b"") for each in consumer.poll(0.5)]
            took.extend(perf_counter() - each for each in sent if each > joined)

    reader = threading.Thread(target=read)
    reader.start()
    while reader.is_alive():
        producer.produce(topic, STAMP.pack(perf_counter()))
        producer.poll(0)
        time.sleep(PAUSE)
    reader.join()
    return percentiles(took)


def sent_at(value: bytes) -> float:
    at: float = STAMP.unpack(value)[0]
    return at


def percentiles(took: Sequence[float]) -> dict[str, float]:
    sample = sorted(took[WARM_UP:])
    return {
        "p50": sample[len(sample) // 2] * 1000,
        "p99": sample[len(sample) * 99 // 100] * 1000,
    }


MEASURES: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("work", "wire"): work_on_the_wire,
    ("work", "librdkafka"): work_by_librdkafka,
    ("latency", "wire"): latency_on_the_wire,
    ("latency", "librdkafka"): latency_by_librdkafka,
}


def main() -> None:
    what, by, address, topic, group, *counts = sys.argv[1:]
    found = MEASURES[what, by](address, topic, group, *(int(count) for count in counts))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
