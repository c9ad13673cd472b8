"""Clients that nobody here wrote, each a program that sends one record for each line it is given.

    topic in, outcome out: "ok", or the name of the error that the client reports

Each waits some two seconds for a delivery. With `-i` it is idempotent, and waits for long.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

CONFLUENT = """
import sys
from confluent_kafka import KafkaException, Producer
is_idempotent = "-i" in sys.argv
producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "it", "log_level": 0,
                     "enable.idempotence": is_idempotent, "request.timeout.ms": 1000,
                     "message.timeout.ms": 60_000 if is_idempotent else 2000})
for line in sys.stdin:
    told = []
    try:
        producer.produce(line.strip(), b"v", on_delivery=lambda error, message: told.append(error))
    except KafkaException as refused:
        told.append(refused.args[0])
    producer.flush(60)
    print("ok" if told[0] is None else told[0].name(), flush=True)
"""

KAFKA_PYTHON = """
import logging, sys
from kafka import KafkaProducer
logging.disable()
is_idempotent = "-i" in sys.argv
producer = KafkaProducer(bootstrap_servers=sys.argv[1], client_id="it",
                         enable_idempotence=is_idempotent, request_timeout_ms=1000,
                         delivery_timeout_ms=60_000 if is_idempotent else 2000)
for line in sys.stdin:
    try:
        producer.send(line.strip(), b"v").get(60)
        print("ok", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""

AIOKAFKA = """
import asyncio, logging, sys
from aiokafka import AIOKafkaProducer
logging.disable()

async def main():
    is_idempotent = "-i" in sys.argv
    producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], client_id="it",
                                enable_idempotence=is_idempotent, request_timeout_ms=2000)
    await producer.start()
    for line in iter(sys.stdin.readline, ""):
        try:
            await producer.send_and_wait(line.strip(), b"v")
            print("ok", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)

asyncio.run(main())
"""

PYTHON_CLIENTS = {"confluent": CONFLUENT, "kafka-python": KAFKA_PYTHON, "aiokafka": AIOKAFKA}


class Client:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, topic: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{topic}\n")
        self._process.stdin.flush()

    def outcome(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def deliver(self, topic: str) -> str:
        self.begin(topic)
        return self.outcome()


@contextmanager
def running(command: Sequence[str]) -> Iterator[Client]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Client(process)
        finally:
            process.kill()


def python_client(name: str, servers: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", PYTHON_CLIENTS[name], servers]
