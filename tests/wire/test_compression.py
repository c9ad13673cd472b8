from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress

import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from lz4 import frame as lz4_frame

from pyk.wire.compression import BatchTooLarge, Compression, CorruptBatch, compress, decompress

GZIP, SNAPPY, LZ4, ZSTD = (
    Compression.GZIP,
    Compression.SNAPPY,
    Compression.LZ4,
    Compression.ZSTD,
)
MIB = 2**20
TEXT = b"".join(b"record %d, " % n for n in range(20_000))

codecs = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])


def xerial(*blocks: bytes) -> bytes:
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, len(TEXT)])
def test_what_was_compressed_inflates_again(codec: Compression, size: int) -> None:
    assert decompress(codec, compress(codec, TEXT[:size]), size) == TEXT[:size]


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=2_000))
@settings(deadline=None, max_examples=50)
def test_any_bytes_survive_any_codec(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@codecs
def test_views_are_taken_as_bytes_are(codec: Compression) -> None:
    compressed = compress(codec, memoryview(TEXT))
    view = memoryview(bytearray(b"..." + compressed))[3:]
    assert decompress(codec, view, len(TEXT)) == TEXT


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (1, 9)), (LZ4, (1, 12)), (ZSTD, (-5, 19))])
def test_a_higher_level_packs_tighter(codec: Compression, levels: tuple[int, int]) -> None:
    fast, best = (compress(codec, TEXT, level) for level in levels)
    assert len(best) < len(fast)
    assert decompress(codec, best, len(TEXT)) == decompress(codec, fast, len(TEXT)) == TEXT


def test_importing_the_module_imports_no_codec() -> None:
    script = """
import sys, pyk.wire.records
print({"lz4", "snappy", "cramjam", "zstandard", "crc32c"} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ran.stdout == b"set()\n"


def test_snappy_is_written_in_xerial_frames_of_32_kib() -> None:
    data = os.urandom(40_000)
    blocks = snappy.compress(data[:32_768]), snappy.compress(data[32_768:])
    assert compress(SNAPPY, data) == xerial(*blocks)


def test_lz4_is_written_as_java_reads_it() -> None:
    """Blocks of 64 KiB that do not depend on each other, no content size."""
    magic, flags, block_descriptor = struct.unpack_from("<IBB", compress(LZ4, TEXT))
    assert (magic, flags, block_descriptor) == (0x184D2204, 0b0110_0000, 0b0100_0000)


def test_a_raw_snappy_block_is_read_too() -> None:
    assert decompress(SNAPPY, snappy.compress(TEXT), len(TEXT)) == TEXT


def test_xerial_versions_in_the_wrong_byte_order_do_not_matter() -> None:
    """Redpanda has written them so."""
    header = b"\x82SNAPPY\x00" + struct.pack("<ii", 1, 1)
    assert decompress(SNAPPY, header + xerial(snappy.compress(b"data"))[16:], 4) == b"data"


def test_streams_that_follow_each_other_are_one() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 7) == b"one two"
    one, two = xerial(snappy.compress(b"one ")), xerial(snappy.compress(b"two"))
    assert decompress(SNAPPY, one + two, 7) == b"one two"
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    frames = zstandard.compress(b"one ") + skippable + zstandard.compress(b"two")
    assert decompress(ZSTD, frames, 7) == b"one two"


def test_zstd_without_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    compressed = stream.compress(TEXT) + stream.flush()
    assert zstandard.frame_content_size(compressed) == -1
    assert decompress(ZSTD, compressed, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    "options", [{"store_size": True}, {"content_checksum": True}, {"block_checksum": True}]
)
def test_lz4_with_optional_fields_is_read(options: dict[str, bool]) -> None:
    compressed = lz4_frame.compress(TEXT, block_linked=False, **options)
    assert decompress(LZ4, compressed, len(TEXT)) == TEXT


def test_lz4_with_linked_blocks_is_refused_since_java_cannot_read_it() -> None:
    with pytest.raises(CorruptBatch, match="depend on each other"):
        decompress(LZ4, lz4_frame.compress(TEXT, block_linked=True), len(TEXT))


def test_a_zstd_window_beyond_128_mib_is_refused() -> None:
    def empty_frame(window_log: int) -> bytes:
        return b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]) + b"\x01\x00\x00"

    assert decompress(ZSTD, empty_frame(27), 100) == b""
    with pytest.raises(CorruptBatch, match="too much memory"):
        decompress(ZSTD, empty_frame(28), 100)


@codecs
def test_the_bound_is_exact(codec: Compression) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(BatchTooLarge, match=f"{codec.name.lower()} data inflates to more than"):
        decompress(codec, compressed, len(TEXT) - 1)


@codecs
def test_a_bomb_costs_little_more_than_its_bound(codec: Compression) -> None:
    bomb = compress(codec, bytes(32 * MIB))
    assert peak_of_refusing(codec, bomb) < 2 * MIB


def test_a_bomb_of_many_members_costs_little_more_than_its_bound() -> None:
    assert peak_of_refusing(GZIP, gzip.compress(bytes(300_000)) * 100) < 2 * MIB
    assert peak_of_refusing(ZSTD, zstandard.compress(bytes(300_000)) * 100) < 2 * MIB


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x81\x80\x40"])
def test_snappy_that_claims_much_is_refused_before_anything_is_allocated(claim: bytes) -> None:
    assert peak_of_refusing(SNAPPY, claim + b"\x00") < 100_000
    assert peak_of_refusing(SNAPPY, xerial(claim + b"\x00")) < 100_000


def test_lz4_that_claims_much_allocates_nothing_for_it() -> None:
    honest = lz4_frame.compress(bytes(100), block_linked=False, store_size=True)
    assert honest[6:14] == struct.pack("<Q", 100)
    tracemalloc.start()
    try:
        for header_checksum in range(256):
            lying = honest[:6] + struct.pack("<QB", 2**40, header_checksum) + honest[15:]
            with pytest.raises(CorruptBatch):
                decompress(LZ4, lying, MIB)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def peak_of_refusing(codec: Compression, bomb: bytes) -> int:
    """Bytes held at most by Python while `bomb` was refused with a bound of 1 MiB."""
    decompress(codec, compress(codec, b"imported"), 8)
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            decompress(codec, bomb, MIB)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@codecs
def test_every_truncation_is_noticed(codec: Compression) -> None:
    compressed = compress(codec, TEXT[:300])
    # No byte of zstd is nothing, and so is a xerial stream of no blocks.
    nothing = {ZSTD: 0, SNAPPY: 16}.get(codec)
    for size in range(len(compressed)):
        if size == nothing:
            assert decompress(codec, compressed[:size], 300) == b""
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], 300)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
@pytest.mark.parametrize("tail", [b"\x00", b"garbage", bytes(70_000)])
def test_what_follows_the_end_of_gzip_and_lz4_is_ignored(codec: Compression, tail: bytes) -> None:
    assert decompress(codec, compress(codec, TEXT) + tail, len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", [SNAPPY, ZSTD])
@pytest.mark.parametrize("tail", [b"\x00", b"garbage", bytes(70_000)])
def test_what_follows_snappy_and_zstd_is_corrupt(codec: Compression, tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, TEXT) + tail, len(TEXT))


def test_snappy_in_very_many_small_blocks_is_corrupt() -> None:
    tiny = xerial(snappy.compress(b"x"))[16:]
    header = xerial(b"")[:16]
    assert decompress(SNAPPY, header + tiny * 64, 1024) == b"x" * 64
    with pytest.raises(CorruptBatch, match="too many small blocks"):
        decompress(SNAPPY, header + tiny * 100_000, 1024**2)


def test_a_snappy_block_of_negative_length_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="a block of -1 bytes"):
        decompress(SNAPPY, xerial() + b"\xff\xff\xff\xff", 100)


def test_a_flipped_bit_in_checked_data_is_noticed() -> None:
    damaged = bytearray(compress(GZIP, TEXT))
    damaged[-8] ^= 1
    with pytest.raises(CorruptBatch, match="incorrect data check"):
        decompress(GZIP, damaged, len(TEXT))


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=300)
def test_random_bytes_are_inflated_or_corrupt(codec: Compression, data: bytes) -> None:
    assert_inflated_or_corrupt(codec, data)


@codecs
@given(
    data=st.binary(max_size=300).map(lambda data: data * 3),
    changes=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), min_size=1, max_size=4),
)
@settings(deadline=None, max_examples=500)
def test_damaged_bytes_are_inflated_or_corrupt(
    codec: Compression, data: bytes, changes: list[tuple[int, bytes]]
) -> None:
    damaged = bytearray(compress(codec, data))
    for position, replacement in changes:
        damaged[position : position + len(replacement)] = replacement
    assert_inflated_or_corrupt(codec, damaged)


def assert_inflated_or_corrupt(codec: Compression, data: bytes | bytearray) -> None:
    with suppress(CorruptBatch):
        assert len(decompress(codec, data, 1_000)) <= 1_000
