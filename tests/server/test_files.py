"""Answers with slices of files: the bytes arrive as if they had been in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from pyk.handlers.call import Peer
from pyk.server.dispatch import Answer
from pyk.server.outbox import READ_BYTES_MAX
from pyk.types import FileSlice, Records
from pyk.wire.frames import Frame
from tests.server.clients import connect, serving

CONTENT = os.urandom(9 * 1024**2)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[BinaryIO]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    with path.open("rb") as opened:
        yield opened


def answer_of(*chunks: Records) -> list[Records]:
    return [sum(map(len, chunks)).to_bytes(4, "big"), *chunks]


@pytest.mark.parametrize("size", [0, 1, READ_BYTES_MAX, READ_BYTES_MAX + 1, 9 * 1024**2 - 7])
async def test_a_slice_of_any_size_arrives(size: int, file: BinaryIO) -> None:
    def dispatch(frame: Frame, peer: Peer) -> Answer:
        return answer_of(b"head", FileSlice(file, 7, size), b"tail")

    async with serving(dispatch) as running:
        client = await connect(running)
        await client.send(b"one", b"two")
        for _ in range(2):
            assert await client.frame() == b"head" + CONTENT[7 : 7 + size] + b"tail"


async def test_many_chunks_of_all_kinds_arrive_in_order(file: BinaryIO) -> None:
    sizes = [1, 5000, 40_000, 1, 0, 100_000, 3, *[100] * 200, 70_000]
    chunks: list[Records] = []
    expected = b""
    for number, size in enumerate(sizes):
        position = number * 1000
        chunks += [b"%d" % number, FileSlice(file, position, size), memoryview(CONTENT)[:size]]
        expected += b"%d" % number + CONTENT[position : position + size] + CONTENT[:size]
    async with serving(lambda frame, peer: answer_of(*chunks)) as running:
        client = await connect(running)
        for _ in range(3):
            assert await client.ask(b"all") == expected


@pytest.fixture
def file_that_is_not_sent() -> Iterator[BinaryIO]:
    with Path("/proc/self/pagemap").open("rb") as opened:
        yield opened


async def test_a_file_that_the_system_does_not_send_is_read(
    file_that_is_not_sent: BinaryIO,
) -> None:
    size = READ_BYTES_MAX * 2
    slice_ = FileSlice(file_that_is_not_sent, 0, size)
    async with serving(lambda frame, peer: answer_of(slice_)) as running:
        client = await connect(running)
        assert len(await client.ask(b"?") or b"") == size
        assert len(await client.ask(b"?") or b"") == size


@pytest.mark.parametrize("promised", [100, READ_BYTES_MAX * 2, 20 * 1024**2])
async def test_a_file_shorter_than_promised_closes_the_connection(
    promised: int, file: BinaryIO, caplog: pytest.LogCaptureFixture
) -> None:
    slice_ = FileSlice(file, len(CONTENT) - 50, promised)
    async with serving(lambda frame, peer: answer_of(slice_)) as running:
        client = await connect(running)
        assert await client.ask(b"?") is None
    assert "reaches beyond the end of its file" in caplog.text
