"""What is in a topic and in groups, as readers of committed records and others see it."""

from __future__ import annotations

from typing import Any, Final

import trio

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.batch import iterate_batches
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pyk.wire.prefixed import ControlType, decode_control_type
from pyk.wire.records import read_records
from tests.adversary.oracle import Log
from tests.adversary.producer import BUSY, PATIENCE, SOON, Asker

COMMITTED, EVERYTHING = 1, 0
HANGS_AFTER: Final = 5.0
"""Seconds after which a transaction is not ended any more by those who are at it."""


async def read_logs(asker: Asker, topic: str, partitions: int) -> dict[int, Log]:
    """All of them. What is open now has some time to end."""
    return {number: await read_log(asker, topic, number) for number in range(partitions)}


async def read_log(asker: Asker, topic: str, partition: int = 0) -> Log:
    with trio.move_on_after(HANGS_AFTER):
        while True:
            found = await _fetch(asker, topic, partition, COMMITTED)
            if found.last_stable_offset == found.high_watermark:
                break
            await trio.sleep(SOON)
    found = await _fetch(asker, topic, partition, COMMITTED)
    everything = await _fetch(asker, topic, partition, EVERYTHING)
    return Log(
        committed=_committed(found),
        everything=_values(everything),
        last_stable_offset=found.last_stable_offset,
        high_watermark=found.high_watermark,
    )


async def _fetch(asker: Asker, topic: str, partition: int, isolation: int) -> Any:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=2**30)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    with trio.fail_after(PATIENCE):
        while True:
            answer = await asker.ask(ApiKey.FETCH, 12, request)
            assert answer is not None
            [found] = answer.responses[0].partitions
            if found.error_code not in BUSY:
                break
            await trio.sleep(SOON)
    assert found.error_code == ErrorCode.NONE, found.error_code
    return found


def _values(found: Any) -> list[bytes]:
    records = found.records or b""
    return [
        bytes(record.value or b"")
        for position, header in iterate_batches(records, torn_tail_allowed=False)
        if not header.is_control
        for record in read_records(records, position, header)
    ]


def _committed(found: Any) -> list[bytes]:
    """As a client reads: what the list of aborted transactions has is left out up to the marker."""
    aborted: dict[int, list[int]] = {}
    for each in sorted(found.aborted_transactions or (), key=lambda each: each.first_offset):
        aborted.setdefault(each.producer_id, []).append(each.first_offset)
    being_aborted: set[int] = set()
    values: list[bytes] = []
    records = found.records or b""
    for position, header in iterate_batches(records, torn_tail_allowed=False):
        producer_id = header.producer_id
        starts = aborted.get(producer_id, [])
        while starts and starts[0] <= header.last_offset:
            being_aborted.add(producer_id)
            starts.pop(0)
        inside = read_records(records, position, header)
        if header.is_control:
            if decode_control_type(next(inside).key) == ControlType.ABORT:
                being_aborted.discard(producer_id)
        elif producer_id not in being_aborted:
            values += [bytes(record.value or b"") for record in inside]
    return values


async def committed_offset(asker: Asker, group_id: str, topic: str) -> int:
    """Of partition 0, once no transaction is about to change it. -1 for none."""
    wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group_id, topics=[wanted], require_stable=True)
    with trio.fail_after(PATIENCE):
        while True:
            answer = await asker.ask(ApiKey.OFFSET_FETCH, 7, request)
            assert answer is not None
            found = answer.topics[0].partitions[0] if answer.topics else None
            if not answer.error_code and found is not None and not found.error_code:
                return int(found.committed_offset)
            await trio.sleep(SOON)
