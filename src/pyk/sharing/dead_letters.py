"""Records that a share group gives up, sent to a topic with what became of them in headers.

The names of the headers, and which partition a letter goes to, are those of KIP-1191. A letter has
the key, the value and the headers of its record too, so that it can be sent back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.offload import in_thread
from pyk.replication.partition import Isolation, Partition
from pyk.sharing.delivery import Dead, Reason
from pyk.sharing.refusals import DAMAGE
from pyk.types import FileSlice
from pyk.wire.batch import BatchHeader
from pyk.wire.dead_letters import DELIVERY_COUNT, GROUP, MESSAGE, OFFSET, PARTITION, TOPIC
from pyk.wire.records import RECORDS_BYTES_MAX, Headers, Record, build_batch, read_records

if TYPE_CHECKING:
    from pyk.disk import File
    from pyk.log.segment import Piece

logger = logging.getLogger(__name__)

T = TypeVar("T")

MESSAGES: Final = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.DELIVERIES: "Offset delivery count exceeded the threshold.",
}
LETTERS_AT_ONCE: Final = 100
"""How many dead letters are written before others have their turn."""
SMALL_BATCH_BYTES: Final = 64 * 1024
"""A batch that takes no longer to read than others may wait. Larger ones are read in a thread."""
SMALL_BATCH_RECORDS: Final = 1_000
PATIENCE: Final = 2.0
"""Seconds for which what may pass is tried again, for all letters of a change together."""
_MAY_PASS: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""A disk that fails, and a log that a thread is making or opening."""
RETRY_AFTER: Final = 0.1


class Burial:
    """Writes a letter for each record that a change gives up and that is still in the log.

    A letter that cannot be written, or whose record cannot be read, takes no other with it.
    """

    def __init__(
        self,
        partition: Partition,
        group_id: str,
        dead: Iterable[Dead],
        find: Callable[[], Awaitable[Partition]],
        now_ms: int,
    ) -> None:
        """`find` gives the partition that the letters go to. It raises KafkaError, OSError."""
        self.written = 0
        self.lost = 0
        self._partition = partition
        self._group_id = group_id
        self._dead = sorted(dead, key=lambda each: each.base)
        self._find = find
        self._now_ms = now_ms
        self._deadline = trio.current_time() + PATIENCE

    async def run(self) -> None:
        """Batch by batch, each read once however many of its records are given up."""
        try:
            self._to = await self._patiently(self._find)
        except (KafkaError, *DAMAGE) as failure:
            for each in self._dead:
                self._lose(each.base, each.end - each.base, failure)
            return
        log, offset = self._partition.log, 0
        for each in self._dead:
            offset = max(offset, each.base, log.start_offset)
            while offset < min(each.end, log.high_watermark):
                try:
                    piece = await self._patiently(partial(self._read, offset))
                except (KafkaError, *DAMAGE) as failure:
                    self._lose(offset, each.end - offset, failure)
                    offset = each.end
                    break
                if piece is None or piece.first.base_offset >= each.end:
                    break
                offset = piece.first.next_offset
                if not piece.first.is_control:
                    await self._write_letters_of(piece)
                await trio.lowlevel.checkpoint()

    async def _write_letters_of(self, piece: Piece) -> None:
        header = piece.first
        dead = [
            each
            for each in self._dead
            if each.base < header.next_offset and each.end > header.base_offset
        ]
        try:
            data = await self._patiently(partial(_bytes_of, piece.records, header))
            if header.size <= SMALL_BATCH_BYTES and header.records_count <= SMALL_BATCH_RECORDS:
                letters = self._letters(data, header, dead)
            else:
                letters = await in_thread(lambda: self._letters(data, header, dead))
        except DAMAGE as failure:
            start = self._partition.log.start_offset
            spans = [
                (max(d.base, header.base_offset, start), min(d.end, header.next_offset))
                for d in dead
            ]
            self._lose(spans[0][0], sum(end - base for base, end in spans if base < end), failure)
            return
        for count, letter in enumerate(letters, start=1):
            await self._write(letter)
            if count % LETTERS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    async def _write(self, letter: Record) -> None:
        """In a batch of its own, so that one that is too large takes no other with it."""
        try:
            await self._patiently(partial(self._append, bytearray(build_batch([letter]))))
        except KafkaError as refusal:
            self._lose(int(dict(letter.headers)[OFFSET] or b""), 1, refusal)
        else:
            self.written += 1

    async def _append(self, batch: bytearray) -> None:
        self._to.produce(batch, acks=1, now_ms=self._now_ms)

    def _letters(self, data: bytes, header: BatchHeader, dead: list[Dead]) -> list[Record]:
        """Raise CorruptBatch."""
        found, at = [], 0
        log = self._partition.log
        start, bytes_max = log.start_offset, max(RECORDS_BYTES_MAX, log.config.max_message_bytes)
        for record in read_records(data, 0, header, bytes_max=bytes_max):
            while at < len(dead) and dead[at].end <= record.offset:
                at += 1
            if at == len(dead):
                break
            if record.offset >= max(dead[at].base, start):
                headers = (*record.headers, *self._context(record.offset, dead[at]))
                found.append(Record(0, self._now_ms, record.key, record.value, headers))
        return found

    async def _read(self, offset: int) -> Piece | None:
        """The batch there, or the next one."""
        return self._partition.read(offset, 1, Isolation.READ_UNCOMMITTED)[0]

    async def _patiently(self, run: Callable[[], Awaitable[T]]) -> T:
        """Try it again while it fails by what may pass, for as long as there is patience."""
        while True:
            try:
                return await run()
            except (KafkaError, OSError) as failure:
                may_pass = not isinstance(failure, KafkaError) or failure.code in _MAY_PASS
                if not may_pass or trio.current_time() >= self._deadline:
                    raise
            await trio.sleep(RETRY_AFTER)

    def _lose(self, offset: int, count: int, failure: Exception) -> None:
        self.lost += count
        logger.error(
            "%s dead letters of the group %s cannot be written, from offset %s of %s on: %s",
            count,
            self._group_id,
            offset,
            self._partition.log.directory.name,
            failure,
        )

    def _context(self, offset: int, dead: Dead) -> Headers:
        partition = self._partition.partition
        return (
            (TOPIC, partition.topic.encode()),
            (PARTITION, b"%d" % partition.partition),
            (OFFSET, b"%d" % offset),
            (GROUP, self._group_id.encode()),
            (DELIVERY_COUNT, b"%d" % dead.delivery_count),
            (MESSAGE, MESSAGES[dead.reason].encode()),
        )


async def _bytes_of(records: FileSlice, header: BatchHeader) -> bytes:
    return cast("File", records.file).read(records.position, header.size)
