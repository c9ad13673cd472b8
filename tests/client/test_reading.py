"""What of an answer is visible: transactions as Fetch tells them."""

from __future__ import annotations

import subprocess
import sys

from pyk.client.offsets import Isolation
from pyk.client.reading import visible_batches
from pyk.wire.messages.fetch import AbortedTransaction, PartitionData
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records

ANN, BOB = 1, 2


def batch(offset: int, producer: int = -1, *, transactional: bool = True) -> bytes:
    record = Record(offset, 0, None, b"%d" % offset)
    return build_batch(
        [record],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )


def marker(offset: int, producer: int, outcome: ControlType) -> bytes:
    key, value = encode_end_marker(outcome, 0)
    return build_batch(
        [Record(offset, 0, key, value)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def seen(log: bytes, isolation: Isolation, *aborted: tuple[int, int]) -> list[int]:
    data = PartitionData(
        partition_index=0,
        high_watermark=100,
        aborted_transactions=[
            AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted
        ],
        records=log,
    )
    return [
        record.offset
        for position, header in visible_batches(log, data, isolation)
        if position is not None
        for record in read_records(log, position, header)
    ]


LOG = b"".join(
    [
        batch(0, ANN),
        batch(1, BOB),
        batch(2, transactional=False),
        marker(3, ANN, ControlType.ABORT),
        batch(4, ANN),
        marker(5, BOB, ControlType.COMMIT),
        marker(6, ANN, ControlType.COMMIT),
        batch(7, BOB),
        marker(8, BOB, ControlType.ABORT),
    ]
)


def test_markers_are_never_seen() -> None:
    assert seen(LOG, Isolation.READ_UNCOMMITTED) == [0, 1, 2, 4, 7]


def test_what_was_aborted_is_not_seen_by_readers_of_committed_records() -> None:
    assert seen(LOG, Isolation.READ_COMMITTED, (ANN, 0), (BOB, 7)) == [1, 2, 4]


def test_an_abort_ends_with_its_marker() -> None:
    assert seen(LOG, Isolation.READ_COMMITTED, (ANN, 0)) == [1, 2, 4, 7]


def test_the_markers_of_what_is_hidden_still_move_the_position() -> None:
    data = PartitionData(partition_index=0, high_watermark=9, records=LOG)
    headers = [header for _, header in visible_batches(LOG, data, Isolation.READ_COMMITTED)]
    assert [header.next_offset for header in headers] == list(range(1, 10))


def test_the_client_needs_neither_trio_nor_click() -> None:
    program = (
        "import sys, pyk.client.producing, pyk.client.reading, pyk.client.topics\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    unwanted = {"trio", "asyncio", "click", "logging", "pyk.log", "crc32c", "zstandard"}
    assert not unwanted & set(loaded)
