"""A client as it should be, in a process of its own: `python -m tests.server.good_client`.

It writes a record, reads it back and asks somebody who is never attacked for an echo, again and
again, until told otherwise by lines on stdin. `report` prints its latencies since the last report;
`end` prints whether all that it was acknowledged is there. The echo is what the machine takes for
itself, which is busy with attackers too.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyk.wire.apis import ApiKey
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch, read_records
from tests.clients.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC: Final = "good"
PAUSE: Final = 0.001
ECHO: Final = b"echo"


class GoodClient:
    def __init__(self, address: str, echo_port: int) -> None:
        self._address = address
        self._client = RawClient(address)
        self._echo = socket.create_connection(("127.0.0.1", echo_port))
        self._offsets: list[int] = []
        """Of the records, each of which is its number in this list."""
        self._latencies: dict[str, list[float]] = {"broker": [], "echo": []}

    def run(self) -> None:
        while True:
            if select.select([sys.stdin], [], [], 0)[0]:
                word = sys.stdin.readline().strip()
                if word != "report":
                    print(json.dumps(self._check()), flush=True)
                    return
                print(json.dumps(self._report()), flush=True)
            self._go_around()
            time.sleep(PAUSE)

    def _go_around(self) -> None:
        number = len(self._offsets)
        record = Record(offset=0, timestamp=time.time_ns() // 10**6, key=None, value=b"%d" % number)
        data = PartitionProduceData(index=0, records=build_batch([record]))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        (produced,) = self._timed(ApiKey.PRODUCE, 12, request).responses[0].partition_responses
        assert produced.error_code == 0, produced
        self._offsets.append(produced.base_offset)
        found = self._timed(ApiKey.FETCH, 12, fetch_from(produced.base_offset))
        (data,) = found.responses[0].partitions
        assert values(data.records)[produced.base_offset] == b"%d" % number
        began = time.perf_counter()
        self._echo.sendall(ECHO)
        assert self._echo.recv(len(ECHO)) == ECHO
        self._latencies["echo"].append(time.perf_counter() - began)

    def _timed(self, key: ApiKey, version: int, request: Any) -> Any:
        began = time.perf_counter()
        answer = self._client.ask(key, version, request)
        self._latencies["broker"].append(time.perf_counter() - began)
        return answer

    def _report(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for whose, latencies in self._latencies.items():
            latencies.sort()
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                at = latencies[int((len(latencies) - 1) * share)] if latencies else 0.0
                found[f"{whose}_{name}"] = at * 1e6
            latencies.clear()
        return found

    def _check(self) -> dict[str, int]:
        """Read all of the log, as somebody else."""
        stored: dict[int, bytes | None] = {}
        with RawClient(self._address) as reader:
            while len(stored) <= self._offsets[-1]:
                (found,) = reader.ask(ApiKey.FETCH, 12, fetch_from(len(stored))).responses
                stored |= values(found.partitions[0].records)
        expected = {offset: b"%d" % number for number, offset in enumerate(self._offsets)}
        return {
            "acknowledged": len(expected),
            "lost": sum(stored.get(offset) != value for offset, value in expected.items()),
            "others": len(stored.keys() - expected.keys()),
        }


def fetch_from(offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10**6)
    return FetchRequest(
        max_wait_ms=1000, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
    )


def values(records: Any) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    position = 0
    while position < len(records):
        size = int.from_bytes(records[position + 8 : position + 12], "big") + 12
        if position + size > len(records):
            break
        batch = records[position : position + size]
        found |= {record.offset: record.value for record in read_records(batch)}
        position += size
    return found


def echo() -> None:
    """Answer with what was said, for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        connection, _ = listening.accept()
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)


@contextmanager
def echoing() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.server.good_client", "echo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def main() -> None:
    if sys.argv[1] == "echo":
        echo()
        return
    with echoing() as port:
        GoodClient(sys.argv[1], port).run()


if __name__ == "__main__":
    main()
