"""Answers on their way into a socket: buffers gathered, slices of files by sendfile.

The system call comes first; only when it would block is there a wait.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

import trio

from pyk.types import Buffer, FileSlice, Records
from pyk.wire.shapes import Chunks

READ_BYTES_MAX: Final = 32 * 1024
"""Slices of a file up to here are read and go out with the buffers around them: one call less."""
SENDFILE_BYTES_MAX: Final = 1024**2
"""After so many bytes others have a turn."""
BUFFERS_MAX: Final = 64
NO_SENDFILE: Final = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK}
SIOCOUTQ: Final = 0x5411


class HungUp(Exception):
    """The client is gone."""


class FileFailed(Exception):
    """A file does not give the bytes that were promised to the client."""


class Outbox:
    """Sends, for one task at a time."""

    __slots__ = ("_descriptor", "_sends_files", "_socket", "bytes_sent", "is_blocked")

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self._descriptor = socket.fileno()
        self._sends_files = True
        self.bytes_sent = 0
        self.is_blocked = False
        """Whether there is something to send and the client does not take it."""

    @property
    def bytes_taken(self) -> int:
        """How much of what was sent has left for the client, as far as the system knows."""
        queued = fcntl.ioctl(self._descriptor, SIOCOUTQ, bytes(4))
        return self.bytes_sent - int(struct.unpack("i", queued)[0])

    def send_now(self, data: Buffer) -> int:
        """How many bytes were taken at once. Raise HungUp."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise HungUp from error
        self.bytes_sent += sent
        return sent

    def offer(self, chunks: Chunks) -> Chunks:
        """Send what is taken at once. What is left. Raise as `send` does."""
        pending = deque(chunks)
        try:
            if pending:
                self._send_some(pending)
        except BlockingIOError:
            pass
        except OSError as error:
            raise HungUp from error
        return list(pending)

    async def send(self, chunks: Iterable[Records]) -> None:
        """Send all of them. Raise HungUp, and FileFailed: the connection is useless after both."""
        pending = deque(chunks)
        turn_ends = self.bytes_sent + SENDFILE_BYTES_MAX
        while pending:
            try:
                self._send_some(pending)
            except BlockingIOError:
                self.is_blocked = True
                await trio.lowlevel.wait_writable(self._descriptor)
                self.is_blocked = False
            except OSError as error:
                raise HungUp from error
            else:
                if pending and self.bytes_sent >= turn_ends:
                    await trio.lowlevel.checkpoint()
                    turn_ends = self.bytes_sent + SENDFILE_BYTES_MAX

    def _send_some(self, pending: deque[Records]) -> None:
        first = pending[0]
        if isinstance(first, FileSlice) and first.size > READ_BYTES_MAX:
            self._send_file(first, pending)
            return
        buffers: list[Buffer] = []
        flags = 0
        for chunk in islice(pending, BUFFERS_MAX):
            if isinstance(chunk, FileSlice):
                if chunk.size > READ_BYTES_MAX:
                    # What follows goes into the same packet.
                    flags = socket.MSG_MORE
                    break
                chunk = read_slice(chunk)
                pending[len(buffers)] = chunk
            buffers.append(chunk)
        if len(buffers) == 1:
            sent = self._socket.send(buffers[0], flags)
        else:
            sent = self._socket.sendmsg(buffers, (), flags)
        self.bytes_sent += sent
        self._drop(pending, sent)

    def _send_file(self, wanted: FileSlice, pending: deque[Records]) -> None:
        if not self._sends_files:
            part = FileSlice(wanted.file, wanted.position, min(wanted.size, SENDFILE_BYTES_MAX))
            sent = self._socket.send(read_slice(part))
        else:
            size = min(wanted.size, SENDFILE_BYTES_MAX)
            try:
                sent = os.sendfile(self._descriptor, wanted.file.fileno(), wanted.position, size)
            except OSError as error:
                if error.errno == errno.EIO:
                    raise FileFailed(f"{wanted} cannot be read: {error}") from error
                if error.errno not in NO_SENDFILE:
                    raise
                self._sends_files = False
                return
            if sent == 0:
                raise FileFailed(f"{wanted} reaches beyond the end of its file")
        self.bytes_sent += sent
        if sent == wanted.size:
            pending.popleft()
        else:
            pending[0] = FileSlice(wanted.file, wanted.position + sent, wanted.size - sent)

    @staticmethod
    def _drop(pending: deque[Records], sent: int) -> None:
        """Forget what was sent of buffers."""
        while pending and sent >= len(pending[0]) and not isinstance(pending[0], FileSlice):
            sent -= len(pending.popleft())
        if sent:
            rest = pending[0]
            assert not isinstance(rest, FileSlice)
            pending[0] = memoryview(rest)[sent:]


def read_slice(wanted: FileSlice) -> bytes:
    """The bytes of a slice. Raise FileFailed if they are not all there."""
    try:
        data = os.pread(wanted.file.fileno(), wanted.size, wanted.position)
    except OSError as error:
        raise FileFailed(f"{wanted} cannot be read: {error}") from error
    if len(data) < wanted.size:
        raise FileFailed(f"{wanted} reaches beyond the end of its file")
    return data
