"""A stream of bytes is cut into frames, wherever the network cut it before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.errors import ProtocolError
from pyk.wire.frames import SMALL_BYTES_MAX, FrameReader


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def test_two_frames_may_come_in_one_piece() -> None:
    reader = FrameReader(100)
    assert reader.feed(framed(b"one") + framed(b"two")) == [b"one", b"two"]
    assert not reader.is_inside_a_frame


def test_a_frame_may_come_byte_by_byte() -> None:
    reader = FrameReader(100)
    *first, last = framed(b"slow")
    for byte in first:
        assert reader.feed(bytes([byte])) == []
        assert reader.is_inside_a_frame
    assert reader.feed(bytes([last])) == [b"slow"]


def test_an_empty_frame_is_a_frame() -> None:
    assert FrameReader(100).feed(framed(b"") + framed(b"")) == [b"", b""]


@pytest.mark.parametrize("size", [b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_size_that_cannot_be_is_refused_before_its_bytes_arrive(size: bytes) -> None:
    with pytest.raises(ProtocolError, match="100 are allowed"):
        FrameReader(100).feed(size)


def test_the_limit_itself_is_allowed() -> None:
    assert FrameReader(5).feed(framed(b"12345")) == [b"12345"]
    with pytest.raises(ProtocolError, match="claims 6 bytes"):
        FrameReader(5).feed(framed(b"123456"))


def test_frames_before_a_bad_one_are_handed_out() -> None:
    reader = FrameReader(100)
    assert reader.feed(framed(b"good") + b"\xff\xff\xff\xff") == [b"good"]
    assert isinstance(reader.refusal, ProtocolError)
    with pytest.raises(ProtocolError):
        reader.feed(framed(b"more"))


@pytest.mark.parametrize("piece_bytes", [1000, 10**6])
def test_a_large_frame_may_be_written_to_and_a_small_one_is_bytes(piece_bytes: int) -> None:
    reader = FrameReader(10**6)
    stream = bytearray(framed(b"small") + framed(bytes(SMALL_BYTES_MAX + 1)) + framed(b"x"))
    found = []
    for start in range(0, len(stream), piece_bytes):
        found += reader.feed(memoryview(stream)[start : start + piece_bytes])
    assert list(map(type, found)) == [bytes, bytearray, bytes]
    assert len(found[1]) == SMALL_BYTES_MAX + 1


def test_a_frame_does_not_change_when_the_buffer_it_came_in_is_used_again() -> None:
    buffer = bytearray(framed(b"a" * 10) + framed(b"b" * (SMALL_BYTES_MAX + 1)) + b"\0\0\0\5ha")
    reader = FrameReader(10**6)
    small, large = reader.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert (small, large) == (b"a" * 10, b"b" * (SMALL_BYTES_MAX + 1))
    assert reader.feed(b"lf!") == [b"half!"]


def test_only_what_has_arrived_of_a_frame_takes_memory() -> None:
    reader = FrameReader(2**31 - 1)
    reader.feed(b"\x7f\xff\xff\xff" + bytes(10))
    assert reader.pending_bytes == 14


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_any_cut_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader(100)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == frames
