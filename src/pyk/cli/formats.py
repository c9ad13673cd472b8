r"""The `%` formats of kcat and rpk: how a record is printed, and how input is cut into records.

    %t %p %o   topic, partition, offset         %k %v (or %s)   key, value
    %T         timestamp in milliseconds        %K %V (or %S)   their sizes, -1 for null
    %h         headers, as k=v,k2=v2            %%              a percent sign
    \n \r \t \0 \\ \xNN                         the bytes they stand for

On input a field ends where the text after it begins. One whose size was given before takes exactly
that many bytes, so that what `-f '%K %V %k%v\n'` prints, binary or not, can be read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import click

from pyk.wire.records import Headers, Record

Piece: TypeAlias = "bytes | str"
"""Literal bytes, or the letter of a field."""

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPED: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|([^\\]+)|(\\)", re.DOTALL)
_TOKEN: Final = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|([%\\])", re.DOTALL)
_SAME: Final = {"s": "v", "S": "V"}
_PRINTED: Final = "tpokvTKVh"
_READ: Final = "kvhTpKV"


def parse_format(text: str, letters: str) -> list[Piece]:
    """Raise UsageError for a field that there is none of."""
    pieces: list[Piece] = []
    for percent, escape, plain, lone in _TOKEN.findall(text):
        if lone:
            raise click.UsageError(f"{text!r} ends with a lone {lone}")
        if not percent or percent == "%":
            literal = b"%" if percent else unescape(f"\\{escape}" if escape else plain)
            if pieces and isinstance(pieces[-1], bytes):
                pieces[-1] += literal
            else:
                pieces.append(literal)
            continue
        letter = _SAME.get(percent, percent)
        if letter not in letters:
            raise click.UsageError(
                f"there is no %{percent} here; there are {' '.join('%' + each for each in letters)}"
            )
        pieces.append(letter)
    return pieces


def unescape(text: str) -> bytes:
    r"""The bytes of a text with \n, \t, \xNN and so on in it. Raise UsageError."""
    found = b""
    for escape, plain, lone in _ESCAPED.findall(text):
        if lone or (escape and escape[0] not in (*_ESCAPES, "x")) or escape == "x":
            raise click.UsageError(
                f"{text!r} has an escape that is none: \\n \\r \\t \\0 \\\\ \\xNN"
            )
        if escape:
            found += bytes.fromhex(escape[1:]) if escape[0] == "x" else _ESCAPES[escape]
        else:
            found += plain.encode("utf-8", "surrogateescape")
    return found


def compile_output(text: str) -> Callable[[str, int, Record], bytes]:
    """What prints a record of a topic and partition."""
    pieces = parse_format(text, _PRINTED)

    def print_record(topic: str, partition: int, record: Record) -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else _printed(piece, topic, partition, record)
            for piece in pieces
        )

    return print_record


def _printed(letter: str, topic: str, partition: int, record: Record) -> bytes:
    match letter:
        case "k":
            return record.key or b""
        case "v":
            return record.value or b""
        case "h":
            return print_headers(record.headers)
        case "t":
            return topic.encode()
    number = {
        "p": partition,
        "o": record.offset,
        "T": record.timestamp,
        "K": -1 if record.key is None else len(record.key),
        "V": -1 if record.value is None else len(record.value),
    }[letter]
    return str(number).encode()


def print_headers(headers: Headers) -> bytes:
    """`k=v,k2=v2`, where a header without a value has no equals sign."""
    return b",".join(
        name.encode("utf-8", "surrogateescape") + (b"" if value is None else b"=" + value)
        for name, value in headers
    )


def parse_headers(data: bytes) -> Headers:
    return tuple(map(parse_header, data.split(b","))) if data else ()


def parse_header(data: bytes) -> tuple[str, bytes | None]:
    name, equals, value = data.partition(b"=")
    return name.decode("utf-8", "surrogateescape"), value if equals else None


@dataclass(slots=True)
class Parsed:
    """A record as the input had it: what it did not have is None."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


class BadInput(Exception):
    """The input is not what the format says."""


@dataclass(slots=True)
class InputParser:
    """Cuts a stream into records. Input that ends without the format's last bytes is a record,
    too, if it has any."""

    pieces: list[Piece]
    _data: bytearray = field(default_factory=bytearray)
    _records: int = 0

    @classmethod
    def compile(cls, text: str) -> InputParser:
        """Raise UsageError for a format that cannot tell where its fields end."""
        pieces = parse_format(text, _READ)
        if not any(piece in ("k", "v") for piece in pieces):
            raise click.UsageError(f"{text!r} has neither a key, %k, nor a value, %v")
        sized: set[str] = set()
        for at, piece in enumerate(pieces):
            following = pieces[at + 1] if at + 1 < len(pieces) else ""
            if isinstance(piece, str) and not (piece in sized or isinstance(following, bytes)):
                raise click.UsageError(f"{text!r} does not say where %{piece} ends")
            sized |= {"k"} if piece == "K" else {"v"} if piece == "V" else set()
        return cls(pieces)

    def feed(self, data: bytes) -> Iterator[Parsed]:
        """The records that are complete now. Raise BadInput."""
        self._data += data
        at = 0
        while at < len(self._data):
            taken = self._take(at, is_end=False)
            if taken is None:
                break
            parsed, at = taken
            yield parsed
        del self._data[:at]

    def close(self) -> Iterator[Parsed]:
        """The record that the end of the input completes, if there is one. Raise BadInput."""
        if self._data:
            taken = self._take(0, is_end=True)
            if taken is None:
                raise BadInput(f"record {self._records + 1} is cut off by the end of the input")
            yield taken[0]
            self._data.clear()

    def _take(self, at: int, *, is_end: bool) -> tuple[Parsed, int] | None:
        parsed, sizes, data = Parsed(), dict[str, int](), self._data
        last = len(self.pieces) - 1
        for index, piece in enumerate(self.pieces):
            if isinstance(piece, bytes):
                if not data.startswith(piece, at):
                    if is_end and index == last and at == len(data):
                        break
                    if len(data) - at < len(piece) and piece.startswith(data[at:]):
                        return None
                    raise self._bad(f"{piece!r} is not where it should be")
                at += len(piece)
                continue
            if piece in sizes:
                end = at + max(sizes[piece], 0)
                if end > len(data):
                    return None
            else:
                end = self._find(index + 1, at, is_end=is_end)
                if end < 0:
                    return None
            text = bytes(data[at:end])
            at = end
            if piece in "KV":
                sizes[piece.lower()] = self._number(piece, text, lowest=-1)
            else:
                self._set(parsed, piece, None if sizes.get(piece) == -1 else text)
        self._records += 1
        return parsed, at

    def _find(self, index: int, at: int, *, is_end: bool) -> int:
        """Where the text after a field begins, or -1 if it is not there yet."""
        following, final = self.pieces[index], self.pieces[-1]
        assert isinstance(following, bytes)
        end = self._data.find(following, at)
        if index == len(self.pieces) - 1:
            return len(self._data) if end < 0 and is_end else end
        # Or else a line without its separator would go on to that of the next.
        if not isinstance(final, bytes):
            return end
        stop = self._data.find(final, at, None if end < 0 else end)
        if stop >= 0:
            raise self._bad(f"there is no {following!r} in {bytes(self._data[at:stop][:40])!r}")
        return end

    def _set(self, parsed: Parsed, letter: str, text: bytes | None) -> None:
        match letter:
            case "k":
                parsed.key = text
            case "v":
                parsed.value = text
            case "h":
                parsed.headers = parse_headers(text or b"")
            case "T":
                parsed.timestamp = self._number(letter, text or b"", lowest=-1)
            case "p":
                parsed.partition = self._number(letter, text or b"", lowest=0)

    def _number(self, letter: str, text: bytes, lowest: int) -> int:
        if not re.fullmatch(rb"-?[0-9]{1,18}", text) or int(text) < lowest:
            raise self._bad(f"%{letter} is {text[:40]!r}, which is no such number")
        return int(text)

    def _bad(self, why: str) -> BadInput:
        return BadInput(f"record {self._records + 1} of the input: {why}")
