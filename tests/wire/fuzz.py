"""Hostile frames by the million: `make fuzz`.

Every declared message and version is encoded from random values and then damaged: bits flipped,
lengths and counts blown up, bytes cut, repeated or taken from another message, or no message at
all. Decoding may succeed or raise ProtocolError; anything else ends the run with the frame shown.
What is accepted must encode again. The worst decode time and the peak of memory are printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec.structs import replace

from pyk.errors import ProtocolError
from pyk.wire.batch import HEADER_BYTES, MAGIC, check_crc, iterate_batches
from pyk.wire.codec import decoder_of
from pyk.wire.compression import Compression
from pyk.wire.message import layout
from pyk.wire.primitives import OBJECTS_MAX
from pyk.wire.records import Record, build_batch, read_records, skim_records
from pyk.wire.request import read_header
from pyk.wire.source import objects_min
from tests.wire.catalogue import MESSAGES, versions
from tests.wire.strategies import Pool, build
from tests.wire.test_codec import joined
from tests.wire.ways import decode, encode, read

BATCH_BYTES_MAX = 1024**2
NESTED_OBJECTS_MAX = 30
"""What the structs around an array may add to the objects in it."""
LENGTHS = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\0", b"\x7f\xff",
    b"\xff\xff", b"\0", b"\xff",
)  # fmt: skip


@dataclass
class Tally:
    frames: int = 0
    accepted: int = 0
    refused: int = 0
    worst_seconds: float = 0.0
    worst: str = ""
    worst_frame_bytes: int = 0
    peak_bytes: int = 0
    peak: str = ""
    peak_frame_bytes: int = 0
    ratio_max: float = field(default=0.0)
    """The most bytes allocated for a byte received, in frames of a kilobyte and more."""


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: random.Random) -> None:
    given = rng.choice(LENGTHS)
    at = rng.randrange(len(data))
    data[at : at + len(given)] = given


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 50)))


def repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 3, 17, 200))]
    data[start:start] = piece * rng.choice((1, 5, 40))


def fill(data: bytearray, rng: random.Random) -> None:
    """Counts that are honest about a long run of the smallest elements there can be."""
    at = rng.randrange(len(data))
    data[at:] = bytes([rng.choice((0, 1, 2, 0x80, 0xFF))]) * rng.choice((100, 2_000, 20_000))
    overwrite(data, rng)


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip, flip, overwrite, overwrite, cut, insert, repeat, fill,
)  # fmt: skip


def frames(seed: int) -> Iterator[tuple[type, int, bytes]]:
    """Damaged frames without end, all messages and versions in turn."""
    rng = random.Random(seed)
    while True:
        for name in sorted(MESSAGES):
            for version in versions(MESSAGES[name]):
                message = build(MESSAGES[name], version, Pool(rng.randbytes(rng.choice((9, 400)))))
                data = bytearray(joined(encode(message, version)))
                if rng.random() < 0.05:
                    data = bytearray(rng.randbytes(rng.choice((1, 30, 3_000))))
                for _ in range(rng.choice((1, 1, 2, 3))):
                    if data:
                        rng.choice(MUTATIONS)(data, rng)
                yield MESSAGES[name], version, bytes(data)


def timed_read(declared: type, version: int, data: bytes) -> tuple[object | None, float]:
    """The message, or None where it was refused, and the seconds that compiled code takes."""
    message: object = None
    decoder = decoder_of(declared, version)
    began = time.perf_counter()
    with suppress(ProtocolError):
        message, _ = decoder(data)
    return message, time.perf_counter() - began


def try_one(declared: type, version: int, data: bytes, tally: Tally) -> None:
    tally.frames += 1
    message, took = timed_read(declared, version, data)
    tally.refused += message is None
    if took > tally.worst_seconds:
        # Once more, and again: the time of a frame is not that of whatever else ran meanwhile.
        took = min(timed_read(declared, version, data)[1] for _ in range(5))
    if took > tally.worst_seconds:
        tally.worst_seconds, tally.worst = took, f"{declared.__name__} v{version}"
        tally.worst_frame_bytes = len(data)
    if message is not None:
        tally.accepted += 1
        again = joined(encode(message, version))
        # NaN is not equal to itself, so it is the bytes that are compared.
        assert joined(encode(decode(declared, version, again), version)) == again
    with suppress(ProtocolError):
        read(declared, version, data)
    with suppress(ProtocolError):
        read_header(data)


def try_memory(declared: type, version: int, data: bytes, tally: Tally) -> None:
    """The same with the allocations watched, which makes it some ten times as slow."""
    decoder = decoder_of(declared, version)
    tracemalloc.start()
    with suppress(ProtocolError):
        decoder(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if peak > tally.peak_bytes:
        tally.peak_bytes, tally.peak = peak, f"{declared.__name__} v{version}"
        tally.peak_frame_bytes = len(data)
    if len(data) >= 1024:
        tally.ratio_max = max(tally.ratio_max, peak / len(data))


def run(count: int, seed: int, memory_every: int = 20) -> Tally:
    tally = Tally()
    compile_all()
    for number, (declared, version, data) in zip(range(count), frames(seed), strict=False):
        try:
            try_one(declared, version, data, tally)
            if number % memory_every == 0:
                try_memory(declared, version, data, tally)
        except Exception as failed:
            shown = data[:200].hex() + ("..." if len(data) > 200 else "")
            failed.add_note(
                f"frame {number} of seed {seed}: {declared.__name__} v{version}, {shown}"
            )
            raise
    return tally


def batches(seed: int) -> Iterator[bytes]:
    """Damaged record batches without end, every codec in turn, most with a CRC that fits."""
    rng = random.Random(seed)
    while True:
        for codec in Compression:
            records = [
                Record(
                    offset=number,
                    timestamp=rng.choice((-1, 0, 1_700_000_000_000)) + number,
                    key=rng.choice((None, b"", rng.randbytes(9))),
                    value=rng.choice((None, b"", bytes(2_000), rng.randbytes(300))),
                    headers=rng.choice(((), (("h", None),), (("h", b"1"), ("h", b"2")))),
                )
                for number in range(rng.choice((0, 1, 3, 40)))
            ]
            data = bytearray(build_batch(records, compression=codec))
            for _ in range(rng.choice((1, 1, 2, 3))):
                if data:
                    rng.choice(MUTATIONS)(data, rng)
            if len(data) >= HEADER_BYTES and rng.random() < 0.7:
                data[8:12] = (len(data) - 12).to_bytes(4, "big")
                data[16] = MAGIC
            yield bytes(data)


def try_batch(data: bytes, tally: Tally) -> None:
    tally.frames += 1
    began = time.perf_counter()
    try:
        for position, header in iterate_batches(data, torn_tail_allowed=False):
            with suppress(ProtocolError):
                check_crc(data, position, header)
            skimmed = list(skim_records(data, position, header, bytes_max=BATCH_BYTES_MAX))
            read_back = list(read_records(data, position, header, bytes_max=BATCH_BYTES_MAX))
            assert len(skimmed) == len(read_back) == header.records_count
        tally.accepted += 1
    except ProtocolError:
        tally.refused += 1
    took = time.perf_counter() - began
    if took > tally.worst_seconds:
        tally.worst_seconds, tally.worst, tally.worst_frame_bytes = took, "a batch", len(data)


def run_batches(count: int, seed: int) -> Tally:
    tally = Tally()
    for number, data in zip(range(count), batches(seed), strict=False):
        try:
            try_batch(data, tally)
        except Exception as failed:
            failed.add_note(f"batch {number} of seed {seed}: {data[:200].hex()}")
            raise
    return tally


def densest(objects: int) -> Iterator[tuple[type, int, str, bytes]]:
    """Honest frames that are worst for memory and time: the smallest elements that add up to it.

    One for every array of every message, in the newest version.
    """
    for name in sorted(MESSAGES):
        declared, version = MESSAGES[name], versions(MESSAGES[name])[-1]
        for path, message in crowded(declared, version, objects):
            yield declared, version, f"{name}.{path}", joined(encode(message, version))


def crowded(declared: type, version: int, objects: int) -> Iterator[tuple[str, Any]]:
    simplest = build(declared, version, Pool(b""))
    for each in layout(declared).fields:
        if not each.versions.covers(version):
            continue
        element = each.kind.element
        inner = each.kind.struct if element is None else element.struct
        if element is not None:
            smallest = build(inner, version, Pool(b"")) if inner else element.empty
            count = objects // objects_min(element, version)
            yield each.name, replace(simplest, **{each.name: [smallest] * count})
        if inner is not None:
            for path, part in crowded(inner, version, objects):
                value = part if element is None else [part]
                yield f"{each.name}.{path}", replace(simplest, **{each.name: value})


def weigh(declared: type, version: int, data: bytes) -> tuple[float, int]:
    """The seconds that decoding takes, at best of three, and the bytes of what comes out."""
    seconds = []
    message: object = None
    for _ in range(3):
        began = time.perf_counter()
        message, _ = read(declared, version, data)
        seconds.append(time.perf_counter() - began)
    return min(seconds), weight(message, set())


def weight(value: Any, seen: set[int]) -> int:
    """Bytes held by a message and all that is in it."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    inner: Iterator[Any] = iter(())
    if isinstance(value, list):
        inner = iter(value)
    elif hasattr(value, "__layout__"):
        inner = (getattr(value, field.name) for field in layout(type(value)).fields)
    return sys.getsizeof(value) + sum(weight(part, seen) for part in inner)


def print_densest() -> None:
    weighed = [
        (path, len(data), *weigh(declared, version, data))
        for declared, version, path, data in densest(OBJECTS_MAX - NESTED_OBJECTS_MAX)
    ]
    print(f"{len(weighed)} arrays filled with the smallest elements up to {OBJECTS_MAX:,} objects")
    for kind in ("Request.", "Response."):
        rows = [row for row in weighed if kind in row[0]]
        slowest = max(rows, key=lambda row: row[2])
        largest = max(rows, key=lambda row: row[3])
        densest_row = max(rows, key=lambda row: row[3] / row[1])
        for label, (path, size, took, held) in (
            ("slowest", slowest),
            ("largest", largest),
            ("densest", densest_row),
        ):
            print(
                f"  {label} {size / 1024:6,.0f} KiB {took * 1000:5.0f} ms"
                f" {held / 1024**2:5.1f} MiB  x{held / size:<5.1f} {path}"
            )


def compile_all() -> None:
    """First uses compile: that must be over before times and memory are taken."""
    for declared in MESSAGES.values():
        for version in versions(declared):
            decode(declared, version, joined(encode(build(declared, version, Pool(b"")), version)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode damaged frames and see what breaks.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", action="store_true", help="print the tally as JSON")
    options = parser.parse_args()
    tally = run(options.frames, options.seed)
    if options.json:
        print(json.dumps(asdict(tally) | {"seed": options.seed}))
        return
    print(f"seed {options.seed}: {tally.frames:,} frames, only ProtocolError raised")
    print(f"  accepted  {tally.accepted:,}   refused {tally.refused:,}")
    print(
        f"  worst decode  {tally.worst_seconds * 1000:.2f} ms"
        f" ({tally.worst}, {tally.worst_frame_bytes:,} bytes)"
    )
    print(
        f"  peak memory   {tally.peak_bytes / 1024:.0f} KiB"
        f" ({tally.peak}, {tally.peak_frame_bytes:,} bytes)"
    )
    print(f"  bytes allocated for a byte received, at most  {tally.ratio_max:.1f}")
    print_densest()
    tally = run_batches(options.frames // 5, options.seed)
    print(f"{tally.frames:,} damaged record batches, only ProtocolError raised")
    print(f"  accepted  {tally.accepted:,}   refused {tally.refused:,}")
    print(f"  slowest   {tally.worst_seconds * 1000:.2f} ms for {tally.worst_frame_bytes:,} bytes")


if __name__ == "__main__":
    main()
