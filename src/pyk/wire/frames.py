"""Frames: each message on a connection is preceded by its size in four bytes."""

from __future__ import annotations

from collections.abc import Iterator

from pyk.errors import ProtocolError
from pyk.types import Buffer


class FrameReader:
    """Cuts a stream of bytes into frames.

    It holds what has arrived of one unfinished frame and nothing else: a declared size is checked
    against the limit, and never allocated before its bytes are there.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._pending = bytearray()

    @property
    def is_inside_a_frame(self) -> bool:
        return bool(self._pending)

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """The frames that `data` completes, without their sizes."""
        self._pending += data
        position, available = 0, len(self._pending)
        try:
            while available - position >= 4:
                size = self._size(position)
                if available - position - 4 < size:
                    break
                start, position = position + 4, position + 4 + size
                yield bytes(memoryview(self._pending)[start:position])
        finally:
            del self._pending[:position]

    def _size(self, position: int) -> int:
        size = int.from_bytes(self._pending[position : position + 4], "big", signed=True)
        if not 0 <= size <= self.frame_bytes_max:
            raise ProtocolError(
                f"a frame claims {size} bytes; from 0 to {self.frame_bytes_max} are allowed"
            )
        return size
