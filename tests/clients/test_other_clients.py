"""Clients that need a world of their own, each as a program in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.brokers import running

AIOKAFKA = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

async def main(address):
    async with AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
        for number in range(50):
            await producer.send_and_wait("numbers", b"%d" % number)
    consumer = AIOKafkaConsumer("numbers", bootstrap_servers=address, auto_offset_reset="earliest")
    async with consumer:
        for number in range(50):
            message = await consumer.getone()
            assert (message.offset, message.value) == (number, b"%d" % number)
    print("all there")

asyncio.run(main(sys.argv[1]))
"""
KAFKA_PYTHON = """
import sys
from kafka import KafkaConsumer, KafkaProducer

address = sys.argv[1]
producer = KafkaProducer(bootstrap_servers=address, compression_type="gzip")
for number in range(50):
    producer.send("numbers", b"%d" % number, partition=0)
producer.flush(20)
producer.close()
consumer = KafkaConsumer("numbers", bootstrap_servers=address, auto_offset_reset="earliest")
for number in range(50):
    message = next(consumer)
    assert (message.offset, message.value) == (number, b"%d" % number)
consumer.close()
print("all there")
"""


@pytest.mark.parametrize("program", [AIOKAFKA, KAFKA_PYTHON], ids=["aiokafka", "kafka-python"])
def test_what_is_put_in_comes_out(program: str, tmp_path: Path) -> None:
    with running(tmp_path / "data") as broker:
        command = [sys.executable, "-c", program, broker.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "all there\n", done.stderr
