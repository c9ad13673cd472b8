"""The four codecs of record batches, framed as Java frames them and bounded in what they inflate.

Whatever is wrong with compressed bytes is a `CorruptBatch`. What follows the end of gzip or lz4
data is ignored, as Java ignores it. Snappy and zstd data have no end of their own, so there it is
corrupt. Each codec's package is imported when first needed: most brokers never inflate a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum

from pyk.errors import ProtocolError
from pyk.types import Buffer

_CHUNK_BYTES = 64 * 1024

_GZIP = 31
"""The `wbits` that make zlib read and write gzip's header and trailer."""
_GZIP_MAGIC = b"\x1f\x8b\x08"

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_VERSION = 1
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LENGTH_BYTES = 4
_XERIAL_BLOCK_BYTES_MIN = 1024
"""What a block holds on average at least: Java's writer allows no smaller ones."""
_XERIAL_BLOCKS_FREE = 64

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_VERSION_AND_RESERVED = 0b1100_0011
_LZ4_VERSION = 0b0100_0000
_LZ4_INDEPENDENT = 0b0010_0000

_ZSTD_WINDOW_BYTES_MAX = 2**27
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_ZSTD_HAS_CHECKSUM = 0b0000_0100
_ZSTD_RUN_LENGTH_BLOCK = 1


class CorruptBatch(ProtocolError):
    """A record batch, or the records inside one, cannot be what its producer meant to send."""


class BatchTooLarge(CorruptBatch):
    """The records of a batch inflate to more than their reader allows."""


class Compression(IntEnum):
    """The codecs, as the low three bits of a batch's attributes number them."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compressed `data`. `level` is the codec's own, None its default; snappy has none."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(
                data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP
            )
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, 0 if level is None else level)
        case Compression.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(3 if level is None else level).compress(data)


def decompress(codec: Compression, data: Buffer, bytes_max: int) -> bytes:
    """Inflated `data`. Raise CorruptBatch for bad bytes, BatchTooLarge beyond `bytes_max`."""
    pieces = []
    left = bytes_max
    for piece in _inflate(codec, data, bytes_max):
        left -= len(piece)
        if left < 0:
            raise _too_large(codec, bytes_max)
        pieces.append(piece)
    return b"".join(pieces)


def _inflate(codec: Compression, data: Buffer, bytes_max: int) -> Iterator[bytes]:
    match codec:
        case Compression.NONE:
            return iter((bytes(data),))
        case Compression.GZIP:
            return _inflate_gzip(memoryview(data))
        case Compression.SNAPPY:
            return _inflate_snappy(memoryview(data), bytes_max)
        case Compression.LZ4:
            return _inflate_lz4(memoryview(data))
        case Compression.ZSTD:
            return _inflate_zstd(memoryview(data))


def _too_large(codec: Compression, bytes_max: int) -> BatchTooLarge:
    return BatchTooLarge(f"{codec.name.lower()} data inflates to more than {bytes_max} bytes")


def _corrupt(codec: Compression, what: object) -> CorruptBatch:
    return CorruptBatch(f"bad {codec.name.lower()} data: {what}")


def _inflate_gzip(data: memoryview) -> Iterator[bytes]:
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            # Fed in chunks, since what a member leaves over is copied each time one ends.
            chunk: Buffer = data[position : position + _CHUNK_BYTES]
            if not chunk:
                raise _corrupt(Compression.GZIP, "truncated")
            position += len(chunk)
            while chunk and not member.eof:
                try:
                    yield member.decompress(chunk, _CHUNK_BYTES)
                except zlib.error as error:
                    raise _corrupt(Compression.GZIP, error) from error
                chunk = member.unconsumed_tail
        position -= len(member.unused_data)
        if data[position : position + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return


def _compress_snappy(data: Buffer) -> bytes:
    import snappy

    view = memoryview(data)
    pieces = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK_BYTES])
        pieces += (len(block).to_bytes(_XERIAL_LENGTH_BYTES, "big"), block)
    return b"".join(pieces)


def _inflate_snappy(data: memoryview, bytes_max: int) -> Iterator[bytes]:
    import snappy

    # Snappy allocates what a block declares, so all of them are added up before the first. Nobody
    # writes blocks of a few bytes, but whoever did would hold us up for long.
    declared = 0
    for number, block in enumerate(_snappy_blocks(data)):
        declared += _snappy_declared_bytes(block)
        if declared > bytes_max:
            raise _too_large(Compression.SNAPPY, bytes_max)
        if number >= _XERIAL_BLOCKS_FREE + bytes_max // _XERIAL_BLOCK_BYTES_MIN:
            raise _corrupt(Compression.SNAPPY, "too many small blocks")
    for block in _snappy_blocks(data):
        try:
            yield snappy.decompress(block)
        except snappy.UncompressError as error:
            raise _corrupt(Compression.SNAPPY, error.__cause__) from error


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw blocks of xerial's framing, or all of `data` as the one block that it then is."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield data
        return
    position = 0
    while position < len(data):
        # Xerial streams may follow each other, each with its header.
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += _XERIAL_HEADER.size
            continue
        start = position + _XERIAL_LENGTH_BYTES
        length = int.from_bytes(data[position:start], "big", signed=True)
        position = start + length
        if length < 0:
            raise _corrupt(Compression.SNAPPY, f"a block of {length} bytes")
        yield data[start:position]
    if position > len(data):
        raise _corrupt(Compression.SNAPPY, "truncated")


def _snappy_declared_bytes(block: memoryview) -> int:
    """The inflated length a raw block starts with, an unsigned varint."""
    declared = 0
    for index, byte in enumerate(block[:5]):
        declared |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return declared
    raise _corrupt(Compression.SNAPPY, "a block without its length")


def _compress_lz4(data: Buffer, level: int) -> bytes:
    from lz4 import frame

    # Java reads no linked blocks. The rest is as its own writer does it.
    compressed: bytes = frame.compress(
        data,
        compression_level=level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _inflate_lz4(data: memoryview) -> Iterator[bytes]:
    from lz4 import frame

    _check_lz4_header(data)
    context = frame.create_decompression_context()
    position = 0
    ended = False
    while not ended:
        try:
            piece, consumed, ended = frame.decompress_chunk(
                context, data[position:], max_length=_CHUNK_BYTES
            )
        except RuntimeError as error:
            raise _corrupt(Compression.LZ4, error) from error
        if not ended and not piece and not consumed:
            raise _corrupt(Compression.LZ4, "truncated")
        position += consumed
        yield piece


def _check_lz4_header(data: memoryview) -> None:
    """Refuse what Java refuses, or one batch would stop every Java consumer of its partition."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise _corrupt(Compression.LZ4, "no frame")
    flags = data[4]
    if flags & _LZ4_VERSION_AND_RESERVED != _LZ4_VERSION:
        raise _corrupt(Compression.LZ4, f"frame flags {flags:#04x}")
    if not flags & _LZ4_INDEPENDENT:
        raise _corrupt(Compression.LZ4, "its blocks depend on each other")


def _inflate_zstd(data: memoryview) -> Iterator[bytes]:
    import zstandard

    _check_zstd_frames(data)
    inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    reader = inflater.stream_reader(data, read_across_frames=True)
    while True:
        try:
            piece = reader.read(_CHUNK_BYTES)
        except zstandard.ZstdError as error:
            raise _corrupt(Compression.ZSTD, error) from error
        if not piece:
            return
        yield piece


def _check_zstd_frames(data: memoryview) -> None:
    """Raise unless `data` is whole frames. The stream reader takes a torn one for the end."""
    position = 0
    while position < len(data):
        magic = data[position : position + 4]
        if magic == _ZSTD_MAGIC:
            position = _zstd_frame_end(data, position)
        elif magic[1:] == _ZSTD_SKIPPABLE_MAGIC and magic[0] >> 4 == 5:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        else:
            raise _corrupt(Compression.ZSTD, "no frame")
    if position > len(data):
        raise _corrupt(Compression.ZSTD, "truncated")


def _zstd_frame_end(data: memoryview, position: int) -> int:
    """Where the frame at `position` ends by its own account, which may be beyond `data`."""
    import zstandard

    try:
        header_size = zstandard.frame_header_size(data[position : position + 18])
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from error
    has_checksum = data[position + 4] & _ZSTD_HAS_CHECKSUM
    position += header_size
    is_last = False
    while not is_last:
        block = int.from_bytes(data[position : position + 3], "little")
        is_last = bool(block & 1) or position + 3 > len(data)
        is_run = block >> 1 & 3 == _ZSTD_RUN_LENGTH_BLOCK
        position += 3 + (1 if is_run else block >> 3)
    return position + 4 if has_checksum else position
