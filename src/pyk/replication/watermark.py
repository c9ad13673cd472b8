"""The high watermark of a log, and who waits for it to reach an offset.

    append -> reach(offset, epoch) -> advanced: the wait returns | ended: it is refused

A wait names the leader epoch in which its offset was assigned. After that epoch the log may have
been truncated, and another leader's batch may have the same offset: the high watermark says nothing
of the first one then. The number itself is the log's alone.
"""

from __future__ import annotations

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.log.log import Log
from pyk.types import TopicPartition


class Watermark:
    """Of a partition that this broker leads, in one leader epoch after the other."""

    __slots__ = ("_log", "_partition", "_refusal", "_waits", "epoch")

    def __init__(self, partition: TopicPartition, log: Log) -> None:
        self.epoch: int | None = None
        """The epoch in which this broker leads. None while it does not."""
        self._partition = partition
        self._log = log
        self._waits: dict[_Wait, None] = {}
        self._refusal: KafkaError | None = None
        """Why this broker does not lead any more."""

    def begin(self, epoch: int) -> None:
        """This broker leads in that epoch. Waits of the one before are over."""
        if epoch != self.epoch:
            self._refuse_waits(self._over(self.epoch))
            self.epoch = epoch

    def end(self, refusal: KafkaError) -> None:
        """This broker does not lead any more. Waits raise the refusal."""
        self.epoch, self._refusal = None, refusal
        self._refuse_waits(refusal)

    def on_advance(self) -> None:
        """The log's high watermark has risen."""
        if not self._waits:
            return
        high_watermark = self._log.high_watermark
        for wait in [wait for wait in self._waits if wait.offset <= high_watermark]:
            del self._waits[wait]
            wait.over.set()

    def is_reached(self, offset: int, epoch: int) -> bool:
        """Whether what was appended before `offset` in that epoch is known to be committed."""
        return self._log.high_watermark >= offset and epoch == self.epoch

    async def reach(self, offset: int, epoch: int) -> None:
        """Return when everything before `offset` is committed. Raise KafkaError if it was not when
        the leader epoch ended."""
        if epoch != self.epoch:
            known = self._refusal if self.epoch is None else None
            raise self._over(epoch) if known is None else KafkaError(known.code, known.message)
        if self._log.high_watermark >= offset:
            return
        wait = _Wait(offset)
        self._waits[wait] = None
        try:
            await wait.over.wait()
        finally:
            self._waits.pop(wait, None)
        if wait.refusal is not None:
            raise KafkaError(wait.refusal.code, wait.refusal.message)

    def _refuse_waits(self, refusal: KafkaError) -> None:
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.refusal = refusal
            wait.over.set()

    def _over(self, epoch: int | None) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"leader epoch {epoch} of {self._partition} is over"
        )


class _Wait:
    __slots__ = ("offset", "over", "refusal")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.over = trio.Event()
        self.refusal: KafkaError | None = None
