"""Frames: each message on a connection is preceded by its size in four bytes."""

from __future__ import annotations

import struct
from typing import TypeAlias

from pyk.errors import ProtocolError
from pyk.types import Buffer

Frame: TypeAlias = bytes | bytearray

SMALL_BYTES_MAX = 16 * 1024
"""Frames up to here are `bytes`, which decode faster. Larger ones are a `bytearray`, so that the
batches in them can be stamped where they are; from here on that saves more than it costs."""

_size_at = struct.Struct(">i").unpack_from


class FrameReader:
    """Cuts a stream of bytes into frames, each an object of its own that nobody writes to again.

    It holds what has arrived of one unfinished frame and nothing else: a declared size is checked
    against the limit, and never allocated before its bytes are there.
    """

    __slots__ = ("_pending", "_size", "frame_bytes_max", "refusal")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.refusal: ProtocolError | None = None
        """Why nothing can be read any more: where the next frame starts is not known."""
        self._pending = bytearray()
        self._size = 0

    @property
    def is_inside_a_frame(self) -> bool:
        return bool(self._pending)

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    @property
    def missing_bytes(self) -> int:
        """What the unfinished frame still needs, if its size has arrived."""
        arrived = len(self._pending)
        return self._size + 4 - arrived if arrived >= 4 else 0

    def feed(self, data: Buffer) -> list[Frame]:
        """The frames that `data` completes, without their sizes.

        A size that is out of bounds is a ProtocolError, raised when the frames before it have been
        handed out; until then it is the `refusal`.
        """
        frames: list[Frame] = []
        try:
            self._cut(data, frames)
        except ProtocolError as refusal:
            self.refusal = refusal
            if not frames:
                raise
        return frames

    def _cut(self, data: Buffer, frames: list[Frame]) -> None:
        if self.refusal is not None:
            raise self.refusal
        position = self._resume(data, frames) if self._pending else 0
        end = len(data)
        while end - position >= 4:
            size = self._checked(_size_at(data, position)[0])
            start, stop = position + 4, position + 4 + size
            if stop > end:
                self._size = size
                break
            frames.append(_taken(data[start:stop], size))
            position = stop
        if position < end:
            self._pending = bytearray(data[position:])

    def _resume(self, data: Buffer, frames: list[Frame]) -> int:
        """Go on with the unfinished frame. How much of `data` that took."""
        pending = self._pending
        position = 0
        if len(pending) < 4:
            position = min(4 - len(pending), len(data))
            pending += data[:position]
            if len(pending) < 4:
                return position
            self._size = self._checked(_size_at(pending)[0])
        stop = position + 4 + self._size - len(pending)
        pending += data[position:stop]
        if stop > len(data):
            return len(data)
        del pending[:4]
        frames.append(_taken(pending, self._size))
        self._pending = bytearray()
        return stop

    def _checked(self, size: int) -> int:
        if 0 <= size <= self.frame_bytes_max:
            return size
        raise ProtocolError(
            f"a frame claims {size} bytes; from 0 to {self.frame_bytes_max} are allowed"
        )


def _taken(data: Buffer, size: int) -> Frame:
    """The bytes as an object of their own. A bytearray that is large is one already."""
    if size <= SMALL_BYTES_MAX:
        return bytes(data)
    return data if isinstance(data, bytearray) else bytearray(data)
