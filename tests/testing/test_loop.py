"""A broker in the loop of a test on trio."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyk.testing import ErrorCode, KafkaError, LoopBroker, serve
from pyk.wire.apis import ApiKey
from pyk.wire.request import decode_response, encode_request
from tests.testing.asking import production


async def ask(broker: LoopBroker, key: ApiKey, version: int, request: object) -> object:
    stream = await trio.open_tcp_stream(broker.host, broker.port)
    async with stream:
        await stream.send_all(b"".join(encode_request(key, version, 1, "trio", request)))  # type: ignore[arg-type]
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            received = await stream.receive_some()
            if not received:
                raise EOFError
            data += received
    return decode_response(key, version, data[4:])[1]


async def test_what_is_written_is_read() -> None:
    async with serve(topics=["orders"]) as broker:
        await broker.produce("orders", b"inside")
        await ask(broker, ApiKey.PRODUCE, 12, production("orders", 0))
        assert [each.value for each in await broker.records("orders")] == [b"inside", b"v"]
        topic = await broker.topic("more", partitions=2)
        assert await broker.records(topic) == []
        assert broker.bootstrap_servers in repr(broker)
        data_dir = broker.data_dir
    assert not data_dir.exists()


async def test_the_time_is_that_of_the_loop(autojump_clock: trio.testing.MockClock) -> None:
    async with serve() as broker:
        (first,) = await broker.produce("orders", b"v")
        await trio.sleep(3600)
        (second,) = await broker.produce("orders", b"v")
        assert second.timestamp == first.timestamp + 3_600_000


async def test_an_hour_of_a_broker_takes_no_time(autojump_clock: trio.testing.MockClock) -> None:
    async with serve() as broker:
        topic = await broker.topic(configs={"retention.ms": "1000"})
        await ask(broker, ApiKey.PRODUCE, 12, production(topic, 0))
        await trio.sleep(3600)
        assert await broker.records(topic) == []


async def test_a_reader_waits() -> None:
    async with serve(topics=["orders"]) as broker, trio.open_nursery() as nursery:
        nursery.start_soon(broker.produce, "orders", b"late")
        assert len(await broker.records("orders", 1)) == 1


async def test_faults_are_there(autojump_clock: trio.testing.MockClock) -> None:
    async with serve(topics=["orders"]) as broker:
        request = production("orders", 0)
        with broker.faults.on("Produce").cut_after(), pytest.raises((EOFError, OSError)):
            await ask(broker, ApiKey.PRODUCE, 12, request)
        began = trio.current_time()
        with broker.faults.on("Produce").delay(60):
            await ask(broker, ApiKey.PRODUCE, 12, request)
        assert trio.current_time() - began >= 60
        with broker.faults.on("Produce").hold() as held:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, broker, ApiKey.PRODUCE, 12, request)
                await trio.testing.wait_all_tasks_blocked(0.01)
                held.lift()
        assert len(await broker.records("orders")) == 3
        with pytest.raises(RuntimeError, match="own loop"):
            broker.faults.freeze()


async def test_what_the_block_raises_is_raised() -> None:
    with pytest.raises(KafkaError) as refused:
        async with serve(topics=["orders"]) as broker:
            await broker.create_topic("orders")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(ZeroDivisionError):
        async with serve():
            raise ZeroDivisionError
