"""What compiled codecs call where straight lines end: long varints and strings, tags, refusals."""

from __future__ import annotations

from typing import Any, NoReturn

from pyk.errors import ErrorCode, KafkaError, ProtocolError

OBJECTS_MAX = 50_000
"""How many objects one message may become: array elements, and the structs and arrays in them.
Decoding that many takes 50 to 70 ms and 6 MB at worst. A client that reads the metadata
of a large cluster asks for more."""
TAGS_MAX = 32
STRING_BYTES_MAX = 32_767
LENIENT_BYTES_MAX = STRING_BYTES_MAX // 3
"""Up to here bytes that are not UTF-8 are replaced, as Java does. The replacement takes three
bytes: a longer string could then not be written back."""


def read_uvarint(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte said that there is more."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0x7FFF_FFFF:
                break
            return value, position
    raise ProtocolError("a varint is larger than 31 bits")


def skip_tags(buffer: Any, position: int, end: int, count: int) -> int:
    if count > 127:
        count, position = read_uvarint(buffer, position, count)
    if count > TAGS_MAX:
        refuse_tags()
    last = -1
    for _ in range(count):
        tag, position = buffer[position], position + 1
        if tag > 127:
            tag, position = read_uvarint(buffer, position, tag)
        size, position = buffer[position], position + 1
        if size > 127:
            size, position = read_uvarint(buffer, position, size)
        position += size
        if tag <= last or position > end:
            refuse_tags()
        last = tag
    return position


def ends_early(message: str) -> NoReturn:
    raise ProtocolError(f"{message} ends before it should") from None


def refuse_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is null, which this version does not allow")


def read_compact_string(buffer: Any, position: int, first: int) -> tuple[str, int]:
    """A string whose length takes more than a byte."""
    size, position = read_uvarint(buffer, position, first)
    if size == 0:
        raise ProtocolError("a null string takes more than a byte")
    return read_string(buffer, position, size - 1)


def read_string(buffer: Any, position: int, size: int) -> tuple[str, int]:
    if size > STRING_BYTES_MAX:
        raise ProtocolError(f"a string claims {size} bytes; {STRING_BYTES_MAX} are allowed")
    stop = position + size
    try:
        errors = "replace" if size <= LENIENT_BYTES_MAX else "strict"
        return bytes(buffer[position:stop]).decode("utf-8", errors), stop
    except UnicodeDecodeError:
        raise ProtocolError(f"a string of {size} bytes is not UTF-8") from None


def refuse_count(name: str) -> NoReturn:
    raise ProtocolError(f"{name} and the arrays before it have too many elements")


def refuse_tags() -> NoReturn:
    raise ProtocolError("tagged fields are too many, out of order or longer than the message")


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def refuse_value(message: str, field: str) -> NoReturn:
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{message} cannot carry {field}")


def refuse_none(field: str) -> NoReturn:
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{field} cannot be null in this version")


def refuse_length(size: int) -> NoReturn:
    raise ValueError(f"a string of {size} bytes is longer than {STRING_BYTES_MAX}")
