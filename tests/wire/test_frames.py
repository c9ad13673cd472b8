"""A stream of bytes is cut into frames, wherever the network cut it before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.errors import ProtocolError
from pyk.wire.frames import FrameReader


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def test_two_frames_may_come_in_one_piece() -> None:
    reader = FrameReader(100)
    assert list(reader.feed(framed(b"one") + framed(b"two"))) == [b"one", b"two"]
    assert not reader.is_inside_a_frame


def test_a_frame_may_come_byte_by_byte() -> None:
    reader = FrameReader(100)
    *first, last = framed(b"slow")
    for byte in first:
        assert list(reader.feed(bytes([byte]))) == []
        assert reader.is_inside_a_frame
    assert list(reader.feed(bytes([last]))) == [b"slow"]


def test_an_empty_frame_is_a_frame() -> None:
    assert list(FrameReader(100).feed(framed(b"") + framed(b""))) == [b"", b""]


@pytest.mark.parametrize("size", [b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_size_that_cannot_be_is_refused_before_its_bytes_arrive(size: bytes) -> None:
    with pytest.raises(ProtocolError, match="100 are allowed"):
        list(FrameReader(100).feed(size))


def test_the_limit_itself_is_allowed() -> None:
    assert list(FrameReader(5).feed(framed(b"12345"))) == [b"12345"]
    with pytest.raises(ProtocolError, match="claims 6 bytes"):
        list(FrameReader(5).feed(framed(b"123456")))


def test_frames_before_a_bad_one_are_handed_out() -> None:
    frames = FrameReader(100).feed(framed(b"good") + b"\xff\xff\xff\xff")
    assert next(frames) == b"good"
    with pytest.raises(ProtocolError):
        next(frames)


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_any_cut_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader(100)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += list(reader.feed(stream[start:end]))
    assert found == frames
