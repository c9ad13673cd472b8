"""A connection: requests in, answers out, in the same order.

    recv -> frames -> dispatch -> an answer      gathered with the next ones, sent
                               -> none           (acks=0)
                               -> one that holds awaited here; nothing is read meanwhile
                               -> one pipelined  queued; a second task awaits and sends in order

- Nothing is awaited that a system call or a plain function can do, but others get their turns:
  after so many requests, bytes or milliseconds.
- Who waits for what a request has brought is answered before it is: a record is on its way to its
  readers as soon as it is in the log.
- Who hangs up gets no answer that is not there yet: what it waits for is cancelled.
- A broken peer or a bug ends this connection only. What is no `Exception` ends the broker.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

import trio
from msgspec import Struct, field

from pyk.errors import ProtocolError
from pyk.handlers.call import Peer
from pyk.handlers.parked import News
from pyk.server.dispatch import Answer, Dispatch, Waiting
from pyk.server.farewells import Farewells
from pyk.server.hangups import HangUps
from pyk.server.limits import Closings, Limits, Memory
from pyk.server.outbox import FileFailed, HungUp, Outbox
from pyk.server.pipeline import Pipeline
from pyk.wire.frames import SMALL_BYTES_MAX, Frame, FrameReader
from pyk.wire.shapes import Chunks

SCRATCH_BYTES: Final = 256 * 1024
TURN_REQUESTS_MAX: Final = 64
TURN_REQUESTS_MIN: Final = 4
TURN_EFFORT: Final = 1024**2
"""After so many requests or bytes others have a turn: the earlier the more connections want one."""
REQUEST_EFFORT: Final = TURN_EFFORT // TURN_REQUESTS_MAX
TURN_SECONDS: Final = 0.002
"""Or after so long, since a request of few bytes may ask for much."""
PART_BYTES_MIN: Final = 32 * 1024
"""Of a large request so much is read at a time, even if many others come at the same time."""
GATHERED_BYTES_MAX: Final = 16 * 1024
"""Answers up to here are sent together with those of the next requests that have arrived."""

logger = logging.getLogger(__name__)


class Shared(Struct):
    """What the connections of a server have in common."""

    dispatch: Dispatch
    limits: Limits
    memory: Memory
    hang_ups: HangUps
    news: News
    closings: Closings = field(default_factory=Closings)
    is_draining: bool = False
    """No more requests are read. Those that were are answered."""
    farewells: Farewells = field(default_factory=Farewells)
    contending: int = 0
    """How many connections have more to do and wait for their next turn."""
    receiving: int = 0
    """How many connections are inside of a large request."""
    scratch: memoryview = field(default_factory=lambda: memoryview(bytearray(SCRATCH_BYTES)))
    """What is received is cut into frames before anybody else runs, so one buffer serves all."""


class Seen(Struct):
    """What the watch last saw of a connection."""

    state: str = ""
    requests: int = 0
    bytes: int = 0
    at: float = 0.0


class Connection:
    __slots__ = (
        "_arrived", "_charged", "_descriptor", "_effort", "_frames", "_has_lost_an_answer",
        "_held", "_is_out_of_time", "_is_waiting_for_room", "_pipeline", "_shared", "_socket",
        "has_hung_up", "outbox", "peer", "received_bytes", "requests", "scope", "seen",
    )  # fmt: skip

    def __init__(self, socket: socket.socket, peer: Peer, shared: Shared) -> None:
        """The socket is the connection's from now on. It does not block."""
        self.peer = peer
        self.scope = trio.CancelScope(shield=True)
        """Only its cancellation ends the connection: what ends the server lets requests finish."""
        self.outbox = Outbox(socket)
        self.has_hung_up = False
        self.requests = 0
        self.received_bytes = 0
        self.seen = Seen()
        self._socket = socket
        self._descriptor = socket.fileno()
        self._shared = shared
        self._frames = FrameReader(shared.limits.frame_bytes_max)
        self._arrived: list[Frame] = []
        """What is still to be handled, the next one last."""
        self._effort = 0
        self._charged = 0
        """What the unfinished frame takes of the shared memory."""
        self._pipeline: Pipeline | None = None
        self._held: trio.CancelScope | None = None
        """Around the handler that holds the connection."""
        self._is_waiting_for_room = False
        self._is_out_of_time = False
        self._has_lost_an_answer = False

    @property
    def is_handling(self) -> bool:
        """Whether it is not the client that we are waiting for."""
        if self._pipeline is not None and not self._pipeline.is_empty:
            return True
        return self._held is not None or self._is_waiting_for_room

    @property
    def is_inside_a_frame(self) -> bool:
        return self._frames.is_inside_a_frame

    async def serve(self) -> None:
        """Until the end of the connection, and close it."""
        try:
            with self.scope:
                await self._guard(self._converse)
            if not self._shared.is_draining:
                await self._shared.farewells.wait_for_turn()
        finally:
            self._shared.hang_ups.forget(self._descriptor)
            self._shared.memory.leave(self)
            self._charge(0)
            self._socket.close()
            if self._pipeline is not None:
                self._pipeline.abandon()
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        try:
            self.peer.leave()
        except Exception:
            logger.exception("a bug at the end of %s", self.peer.connection_id)

    def drain(self) -> None:
        """Read no more. Whoever waits for the client sees the end of the stream."""
        try:
            self._socket.shutdown(socket.SHUT_RD)
        except OSError:
            self.scope.cancel()  # It is not connected any more.

    async def _guard(self, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except (ProtocolError, FileFailed) as broken:
            self._shared.closings.note(self.peer.host, broken)
        except HungUp:
            logger.debug("%s hung up", self.peer.connection_id)
        except Exception:
            logger.exception("closing %s after a bug", self.peer.connection_id)
        else:
            return
        self.scope.cancel()

    async def _converse(self) -> None:
        await self._read()
        if self._pipeline is None:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._guard, self._pipeline.run)
            await self._guard(self._read)
            self._pipeline.end()
            if not self._shared.is_draining:
                nursery.cancel_scope.cancel()

    # Requests

    async def _read(self) -> None:
        """Until there are no more requests, or until the first one that is pipelined."""
        shared, frames, pipeline = self._shared, self._frames, self._pipeline
        while True:
            turn_requests = max(TURN_REQUESTS_MIN, TURN_REQUESTS_MAX // (1 + shared.contending))
            handled = await self._handle_some(turn_requests)
            if self._pipeline is not pipeline or shared.is_draining:
                return
            self._effort += handled * REQUEST_EFFORT
            is_out_of_time = self._is_out_of_time
            others = max(shared.contending, shared.receiving)
            if is_out_of_time or self._effort * (1 + others) >= TURN_EFFORT:
                await self._let_others_run()
            if is_out_of_time or handled == turn_requests:
                continue
            if frames.refusal is not None:
                raise frames.refusal
            size = await self._receive()
            if not size:
                return
            self._effort += size
            self.received_bytes += size
            self._arrived = frames.feed(shared.scratch[:size])[::-1]
            if frames.pending_bytes >= SMALL_BYTES_MAX or self._charged:
                self._charge(frames.pending_bytes)

    async def _let_others_run(self) -> None:
        self._effort = 0
        self._shared.contending += 1
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._shared.contending -= 1

    async def _receive(self) -> int:
        """How much has come into the scratch buffer. 0 when no more will."""
        shared = self._shared
        while not shared.is_draining:
            # Of small requests few at a time: they are all cut before anybody else has a turn.
            size_max, missing = SMALL_BYTES_MAX, self._frames.missing_bytes
            if missing:
                size_max = min(size_max + missing, self._part_bytes())
            if shared.memory.is_full and not shared.memory.favours(self):
                if self._charged:
                    await self._wait_for_room()
                    continue
                size_max = SMALL_BYTES_MAX
            try:
                return self._socket.recv_into(shared.scratch, size_max)
            except BlockingIOError:
                self._effort = 0
                await trio.lowlevel.wait_readable(self._descriptor)
            except OSError as error:
                raise HungUp from error
        return 0

    def _part_bytes(self) -> int:
        """How much to read at a time. All who are in the middle of large requests share a turn."""
        if self._shared.receiving <= TURN_EFFORT // SCRATCH_BYTES:
            return SCRATCH_BYTES
        return max(TURN_EFFORT // self._shared.receiving, PART_BYTES_MIN)

    async def _wait_for_room(self) -> None:
        self._is_waiting_for_room = True
        await self._shared.memory.wait_for_room(self)
        self._is_waiting_for_room = False

    def _charge(self, pending_bytes: int) -> None:
        """What is large enough to count is counted, until it is complete."""
        counted = pending_bytes if pending_bytes >= SMALL_BYTES_MAX else 0
        self._shared.memory.change(counted - self._charged)
        self._shared.receiving += bool(counted) - bool(self._charged)
        self._charged = counted
        if not counted:
            self._shared.memory.leave(self)

    async def _handle_some(self, requests_max: int) -> int:
        """Handle what has arrived, up to so many, for so long, and up to the first one that is
        pipelined. How many there were."""
        gathered: list[bytes] = []
        try:
            handled = await self._gather(gathered, requests_max)
        except Exception:
            # Those before the one that fails are answered.
            self._shared.news.tell()
            await self._send_gathered(gathered)
            raise
        if self._shared.news:
            self._shared.news.tell()
        await self._send_gathered(gathered)
        self.requests += handled
        return handled

    async def _gather(self, gathered: list[bytes], requests_max: int) -> int:
        """Leave small answers in `gathered`, unless something behind them is sent or waits."""
        shared, peer, pipeline = self._shared, self.peer, self._pipeline
        handled, dispatch, turn_ends = 0, shared.dispatch, perf_counter() + TURN_SECONDS
        news, arrived = shared.news, self._arrived
        self._is_out_of_time = False
        while arrived and handled < requests_max:
            frame = arrived.pop()
            handled += 1
            news.is_attended, news.is_complete = True, not arrived
            try:
                answer = dispatch(frame, peer)
            finally:
                news.is_attended = news.is_complete = False
            if answer is not None:
                first = answer[0] if type(answer) is list and len(answer) == 1 else None
                if (
                    type(first) is bytes
                    and len(first) <= GATHERED_BYTES_MAX
                    and (pipeline is None or pipeline.is_empty)
                ):
                    gathered.append(first)
                else:
                    if news:
                        news.tell()
                    await self._send_gathered(gathered, before=answer)
                    await self._answer_in_turn(answer, len(frame))
                    if self._pipeline is not pipeline or shared.is_draining:
                        break
            if perf_counter() > turn_ends:
                self._is_out_of_time = True
                break
        return handled

    # Answers

    async def _send_gathered(
        self, gathered: list[bytes], before: Chunks | Waiting | None = None
    ) -> None:
        if not gathered or self._has_lost_an_answer:
            return
        data = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        gathered.clear()
        try:
            sent = self.outbox.send_now(data)
            if sent < len(data):
                await self.outbox.send([memoryview(data)[sent:]])
        except BaseException:
            if isinstance(before, Waiting):
                before.abandon()
            raise

    async def _answer_in_turn(self, answer: Chunks | Waiting, request_bytes: int) -> None:
        """Send the answer, or see that it will be sent after those before it."""
        if isinstance(answer, Waiting) and answer.holds:
            found = await self._hold(answer, request_bytes)
            if found is None:
                return
            answer = found
        pipeline = self._pipeline
        if isinstance(answer, list) and (pipeline is None or pipeline.is_empty):
            if not self._has_lost_an_answer:
                await self.outbox.send(answer)
        elif pipeline is None:
            limits, memory = self._shared.limits, self._shared.memory
            self._pipeline = Pipeline(self.outbox, limits, memory)
            self._pipeline.add(answer, request_bytes)
        else:
            pipeline.add(answer, request_bytes)
            await pipeline.wait_for_room()

    async def _hold(self, waiting: Waiting, request_bytes: int) -> Answer:
        """Wait for the answer. None if there is none, or if the client hangs up before."""
        shared = self._shared
        counted = request_bytes if request_bytes > SMALL_BYTES_MAX else 0
        with trio.CancelScope() as self._held:
            shared.hang_ups.watch(self._descriptor, self._note_hang_up)
            if self.has_hung_up:
                self._held.cancel()
            shared.memory.change(counted)
            try:
                return await waiting.answer(self._offer)
            finally:
                shared.memory.change(-counted)
                self._held = None
        # A client that closed only its own half must not take the next answer for this one.
        self._has_lost_an_answer = True
        return None

    def _offer(self, answer: Chunks) -> Chunks:
        """Send what is taken at once of an answer that holds the connection, if it is its turn.
        What is left."""
        if self.has_hung_up or self._has_lost_an_answer:
            return []
        if self._pipeline is not None and not self._pipeline.is_empty:
            return answer
        return self.outbox.offer(answer)

    def _note_hang_up(self) -> None:
        if self._shared.is_draining:
            return  # It is we who have stopped to listen.
        self.has_hung_up = True
        if self._held is not None:
            self._held.cancel()
