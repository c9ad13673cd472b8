"""Members of groups, in a process of their own.

    python -m bench.groups_client first HOST:PORT TOPIC COUNT classic|consumer TURN
    python -m bench.groups_client wire HOST:PORT TOPIC COUNT classic|consumer TURN
    python -m bench.groups_client members HOST:PORT TOPIC GROUPS

`first` has one group after another read its first record, with confluent-kafka, and prints how long
each took from its subscription on. Most of that is the client's own: it looks for what is new every
50 or 100 ms. `wire` asks what a client has to ask, without waiting in between. `members` brings up
groups of three members on raw sockets and prints how long that took; for each line that it then
reads, every member sends some heartbeats.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import trio
from confluent_kafka import Consumer

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyk.wire.request import decode_response, encode_request
from tests.clients.raw import RawClient

WAIT: Final = 60.0
MEMBERS: Final = 3
AT_ONCE: Final = 100
HEARTBEATS: Final = 5
JOIN, SYNC, HEARTBEAT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT
PROTOCOL: Final = JoinGroupRequestProtocol(name="range", metadata=bytes(64))


def first(address: str, topic: str, count: int, protocol: str, turn: str) -> dict[str, float]:
    took = []
    for number in range(count):
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"first-{protocol}-{turn}-{number}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        began = perf_counter()
        consumer.subscribe([topic])
        message = consumer.poll(WAIT)
        took.append(perf_counter() - began)
        assert message is not None, "no record"
        assert message.error() is None, message.error()
        consumer.close()
    took.sort()
    return {"p50": took[count // 2] * 1000, "p99": took[count * 99 // 100] * 1000}


def wire(address: str, topic: str, count: int, protocol: str, turn: str) -> dict[str, float]:
    took = []
    join = {"classic": join_classic, "consumer": join_consumer}[protocol]
    for number in range(count):
        group_id = f"wire-{protocol}-{turn}-{number}"
        began = perf_counter()
        with RawClient(address) as client:
            client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group_id))
            join(client, group_id, topic)
            wanted = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
            client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group_id, topics=wanted))
            assert client.ask(ApiKey.FETCH, 11, reading(topic)).responses[0].partitions[0].records
        took.append(perf_counter() - began)
    took.sort()
    return {"p50": took[count // 2] * 1000, "p99": took[count * 99 // 100] * 1000}


def join_classic(client: RawClient, group_id: str, topic: str) -> None:
    member_id = ""
    while True:
        joined = client.ask(JOIN, 5, joining(group_id, member_id))
        member_id = joined.member_id
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
    assert joined.error_code == ErrorCode.NONE, joined
    assigned = [SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(64))]
    synced = client.ask(
        SYNC,
        3,
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=member_id,
            assignments=assigned,
        ),
    )
    assert synced.error_code == ErrorCode.NONE, synced


def join_consumer(client: RawClient, group_id: str, topic: str) -> None:
    joined = client.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="member",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
    )
    assert joined.error_code == ErrorCode.NONE, joined
    assert joined.assignment.topic_partitions, joined


def joining(group_id: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[PROTOCOL],
    )


def reading(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**6)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)


class Group:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.complete_in: int | None = None
        """The generation that has all members."""


class Member:
    def __init__(self, stream: trio.SocketStream, group: Group) -> None:
        self._stream = stream
        self._group = group
        self._group_id = group.group_id
        self._member_id = ""
        self._generation = -1
        self._buffer = b""

    async def join(self) -> None:
        """Until the group has all its members, and this one its assignment."""
        while True:
            answer = await self._ask(JOIN, 5, joining(self._group_id, self._member_id))
            self._member_id = answer.member_id
            if answer.error_code:
                continue
            self._generation = answer.generation_id
            members = [member.member_id for member in answer.members]
            if await self._sync(members) != ErrorCode.NONE:
                continue
            if len(members) == MEMBERS:
                self._group.complete_in = self._generation
            while await self.heartbeat() == ErrorCode.NONE:
                if self._group.complete_in == self._generation:
                    return
                # Nobody tells a follower that somebody is missing still.
                await trio.sleep(0.005)

    async def _sync(self, members: Sequence[str]) -> int:
        assignments = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(64))
            for member_id in members
        ]
        answer = await self._ask(
            SYNC,
            3,
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                assignments=assignments,
            ),
        )
        code: int = answer.error_code
        return code

    async def heartbeat(self) -> int:
        answer = await self._ask(
            HEARTBEAT,
            3,
            HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
            ),
        )
        code: int = answer.error_code
        return code

    async def _ask(self, key: ApiKey, version: int, request: Any) -> Any:
        chunks = encode_request(key, version, 1, "member", request)
        await self._stream.send_all(b"".join(bytes(chunk) for chunk in chunks))  # type: ignore[arg-type]
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._size:
            received = await self._stream.receive_some(65536)
            assert received, "the broker hung up"
            self._buffer += received
        end = 4 + self._size
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        return decode_response(key, version, frame)[1]

    @property
    def _size(self) -> int:
        return int.from_bytes(self._buffer[:4], "big")


async def members(address: str, topic: str, count: int) -> None:
    host, _, port = address.rpartition(":")
    room = trio.CapacityLimiter(AT_ONCE)
    groups: list[list[Member]] = []

    async def connect(group: Group) -> Member:
        return Member(await trio.open_tcp_stream(host, int(port)), group)

    async def bring_up(members: list[Member]) -> None:
        async with room, trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(member.join)

    async def keep_alive(member: Member) -> None:
        for _ in range(HEARTBEATS):
            code = await member.heartbeat()
            assert code == ErrorCode.NONE, ErrorCode(code)

    for number in range(count):
        group = Group(f"{topic}-{number}")
        groups.append([await connect(group) for _ in range(MEMBERS)])
    began = perf_counter()
    async with trio.open_nursery() as nursery:
        for each in groups:
            nursery.start_soon(bring_up, each)
    print(json.dumps({"join": perf_counter() - began}), flush=True)
    async for _ in trio.wrap_file(sys.stdin):
        began = perf_counter()
        async with trio.open_nursery() as nursery:
            for each in groups:
                for member in each:
                    nursery.start_soon(keep_alive, member)
        took = perf_counter() - began
        sent = count * MEMBERS * HEARTBEATS
        print(json.dumps({"heartbeat": took / sent * 1e6, "sent": sent}), flush=True)


def main() -> None:
    what, address, topic, count, *more = sys.argv[1:]
    if what in ("first", "wire"):
        measure = first if what == "first" else wire
        print(json.dumps(measure(address, topic, int(count), *more)))
    else:
        trio.run(members, address, topic, int(count))


if __name__ == "__main__":
    main()
