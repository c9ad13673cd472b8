"""What it costs to count: a broker beside the same one that counts nothing of its requests.

    python -m bench.metrics counted|uncounted DATA_DIR

serves as one of the two. The load is produce requests on one connection, a batch each. Then both
answer the same requests in one process, a few in turn, without sockets: the quickest of many turns
shows what counting takes, where a busy machine hides it in the rest.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import trio

import pyk.broker
from bench.codec import joined
from bench.contestants import Contestant
from bench.generator import load
from bench.table import Row, row_of_rounds
from pyk.config.settings import BrokerSettings
from pyk.errors import ProtocolError
from pyk.handlers.call import Call, Peer
from pyk.server.dispatch import Answer, Dispatcher, Waiting
from pyk.wire.apis import ApiKey
from pyk.wire.frames import SMALL_BYTES_MAX, Frame
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from pyk.wire.request import encode_request, read_header
from tests.clients.raw import RawClient

TITLE: Final = "The cost of metrics: processor time of a broker for a request, medians of rounds"
ROUNDS: Final = 40
SECONDS: Final = 0.4
"""Many short rounds: what else the machine does then falls on both alike."""
TURNS: Final = 1000
AT_A_TIME: Final = 10
TOPIC: Final = "t"
CASES: Final = {"100 B": (1, 100), "1 KB": (1, 1000), "16 KB in 100 records": (100, 160)}
"""How many records of how many bytes are in a batch."""


class Uncounted(Dispatcher):
    """As the dispatcher is without its counters and clocks."""

    def __call__(self, frame: Frame, peer: Peer) -> Answer | Waiting:
        route = self._routes.get(bytes(frame[:4]))
        if route is None:
            return self._first_of_its_kind(frame, peer)
        if len(frame) <= SMALL_BYTES_MAX:
            header, position = route.read_header(frame)
        else:
            header, position = read_header(frame)
        request, _ = route.read_body(frame, position)
        endpoint = route.endpoint
        try:
            response = endpoint.handle(
                request, Call(route.version, header.client_id, peer), self._broker
            )
        except ProtocolError:
            raise
        except Exception as failure:
            response = route.refuse(request, failure)
        if type(response) is route.response:
            return route.encode(header.correlation_id, response)
        if response is None:
            return None
        finish = partial(route.finish, 0, 0, header.correlation_id, request)
        return Waiting(response, finish, holds=not endpoint.is_pipelined)


def rows() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home, ExitStack() as stack:
        contestants = [
            stack.enter_context(served(kind, Path(home) / kind))
            for kind in ("counted", "uncounted")
        ]
        served_rows = [measure(contestants, case, *batch) for case, batch in CASES.items()]
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        return [*served_rows, *trio.run(dispatched, home)]


def measure(contestants: Sequence[Contestant], case: str, count: int, size: int) -> Row:
    frame = produce(count, size)
    rounds = []
    for turn in range(ROUNDS):
        found = {}
        for each in contestants if turn % 2 else contestants[::-1]:
            before = each.cpu_seconds()
            done = load(each.host_and_port, [frame], in_flight=4, seconds=SECONDS)
            found[each.name] = (each.cpu_seconds() - before) / done.answered * 1e6
        rounds.append({each.name: found[each.name] for each in contestants})
    return row_of_rounds(f"produce {case}", "us", rounds, "uncounted at least 0.98")


async def dispatched(data_dir: str) -> list[Row]:
    peer = Peer(
        connection_id="", listener="PLAINTEXT", host="", port=0, reached_host="", reached_port=0
    )
    async with pyk.broker.open_broker(settings_for(data_dir)) as broker:
        with RawClient(f"127.0.0.1:{broker.addresses[0].port}") as client:
            await trio.to_thread.run_sync(make_topic, client)
        dispatchers = {
            "counted": broker.dispatcher,
            "uncounted": Uncounted(pyk.broker.World().endpoints, broker.context),
        }
        return [
            Row(
                f"produce {case}, without a socket",
                "us",
                quickest(dispatchers, produce(*batch)[4:], peer),
            )
            for case, batch in CASES.items()
        ]


def quickest(dispatchers: Mapping[str, Dispatcher], frame: Frame, peer: Peer) -> dict[str, float]:
    best = dict.fromkeys(dispatchers, math.inf)
    for _ in range(TURNS):
        for name, dispatch in dispatchers.items():
            began = perf_counter()
            for _ in range(AT_A_TIME):
                dispatch(frame, peer)
            best[name] = min(best[name], (perf_counter() - began) / AT_A_TIME * 1e6)
    return best


def produce(count: int, size: int) -> bytes:
    records = [Record(i, 1_700_000_000_000, None, bytes(size)) for i in range(count)]
    data = [PartitionProduceData(index=0, records=build_batch(records))]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )
    return joined(encode_request(ApiKey.PRODUCE, 9, 1, "bench", request))


@contextmanager
def served(kind: str, data_dir: Path) -> Iterator[Contestant]:
    command = [sys.executable, "-m", "bench.metrics", kind, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with RawClient(address) as client:
                make_topic(client)
            yield Contestant(kind, address, process.pid, 0.0)
        finally:
            process.kill()


def make_topic(client: RawClient) -> None:
    client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))


def settings_for(data_dir: str) -> BrokerSettings:
    return BrokerSettings(
        {
            "log.dirs": data_dir,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            # Of the same bytes again and again little is kept.
            "log.retention.bytes": str(256 * 1024**2),
            "log.segment.bytes": str(128 * 1024**2),
            "log.retention.check.interval.ms": "1000",
            "log.segment.delete.delay.ms": "0",
            "log.retention.ms": "-1",
        }
    )


async def serve(data_dir: str) -> None:
    async with pyk.broker.open_broker(settings_for(data_dir)) as broker:
        print(f"127.0.0.1:{broker.addresses[0].port}", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    if sys.argv[1] == "uncounted":
        vars(pyk.broker)["Dispatcher"] = Uncounted
    trio.run(serve, sys.argv[2])
