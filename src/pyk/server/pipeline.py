"""Answers that queue behind one that waits, and go out in the order of their requests."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import trio

from pyk.server.dispatch import Answer, Waiting
from pyk.server.limits import Limits, Memory
from pyk.server.outbox import Outbox
from pyk.wire.frames import SMALL_BYTES_MAX


class _Queued(NamedTuple):
    answer: Answer | Waiting
    answer_bytes: int
    request_bytes: int


class Pipeline:
    """The reader of a connection adds, `run` awaits and sends. It is empty when all is sent, and
    only then may the reader send for itself."""

    def __init__(self, outbox: Outbox, limits: Limits, memory: Memory) -> None:
        self._outbox = outbox
        self._limits = limits
        self._memory = memory
        self._queue: deque[_Queued] = deque()
        self._answer_bytes = 0
        self._has_ended = False
        self._added = trio.lowlevel.ParkingLot()
        self._sent = trio.lowlevel.ParkingLot()

    @property
    def is_empty(self) -> bool:
        return not self._queue

    def add(self, answer: Answer | Waiting, request_bytes: int) -> None:
        """Large requests may live for as long as their answers wait, and are counted."""
        answer_bytes = sum(map(len, answer)) if isinstance(answer, list) else 0
        counted = request_bytes if request_bytes > SMALL_BYTES_MAX else 0
        self._queue.append(_Queued(answer, answer_bytes, counted))
        self._answer_bytes += answer_bytes
        self._memory.change(counted)
        self._added.unpark_all()

    async def wait_for_room(self) -> None:
        while (
            len(self._queue) >= self._limits.requests_in_flight_max
            or self._answer_bytes > self._limits.answer_bytes_max
        ):
            await self._sent.park()

    def end(self) -> None:
        """Nothing will be added any more."""
        self._has_ended = True
        self._added.unpark_all()

    async def run(self) -> None:
        """Send until all that was added before the end is sent. Raise as `Outbox.send` does, and
        what handlers raise."""
        while self._queue or not self._has_ended:
            if not self._queue:
                await self._added.park()
                continue
            answer = self._queue[0].answer
            if isinstance(answer, Waiting):
                answer = await answer.answer(self._outbox.offer)
            if answer is not None:
                await self._outbox.send(answer)
            self._drop_first()

    def abandon(self) -> None:
        """Nothing will be sent any more."""
        while self._queue:
            answer = self._queue[0].answer
            if isinstance(answer, Waiting):
                answer.abandon()
            self._drop_first()

    def _drop_first(self) -> None:
        first = self._queue.popleft()
        self._answer_bytes -= first.answer_bytes
        self._memory.change(-first.request_bytes)
        self._sent.unpark_all()
