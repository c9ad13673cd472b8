"""Values of configuration: text in files and requests, typed in between, text again when shown.

Reading and writing follow Java, where Kafka leaves both to it: what Long.parseLong, String.trim and
Double.toString do is part of the interface.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from enum import IntEnum
from typing import Final, TypeAlias

from pyk.errors import ErrorCode, KafkaError

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ValueType(IntEnum):
    """As DescribeConfigs numbers them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_BITS: Final = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}
_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
_SPACES: Final = " \t\n\r\f\v"
"""What Java's patterns take for one."""
# Patterns as text, which `re` compiles when it first needs them: most values need none.
_DECIMAL: Final = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
_HEXADECIMAL: Final = (
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)


def invalid(name: str, value: object, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {reason}"
    )


def trim(text: str) -> str:
    """As Java's: control characters go with the spaces, no-break spaces stay."""
    return text.strip(_BLANKS)


def parse(name: str, value_type: ValueType, text: str) -> Value:
    """The value that `text` stands for. Raises `KafkaError`, naming the key and the text."""
    trimmed = trim(text)
    match value_type:
        case ValueType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid(name, text, "it must be true or false")
            return trimmed.lower() == "true"
        case ValueType.SHORT | ValueType.INT | ValueType.LONG:
            return _integer(name, value_type, trimmed)
        case ValueType.DOUBLE:
            return _double(name, trimmed)
        case ValueType.LIST:
            return _items(name, trimmed)
        case _:
            return trimmed


def format_value(value: Value) -> str | None:
    """The text that DescribeConfigs shows. `parse` of it is the value again."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _format_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _integer(name: str, value_type: ValueType, text: str) -> int:
    limit = 1 << (_BITS[value_type] - 1)
    digits = text[1:] if text.startswith(("+", "-")) else text
    # Longer numbers are refused unread: reading them takes time that grows with their square.
    if len(text) <= 1000 and digits.isdecimal() and -limit <= int(text) < limit:
        return int(text)
    raise invalid(name, text, f"it is not a number of type {value_type.name}")


def _double(name: str, text: str) -> float:
    if re.fullmatch(_DECIMAL, text):
        return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)
    if found := re.fullmatch(_HEXADECIMAL, text):
        return float.fromhex(found[1])
    raise invalid(name, text, "it is not a number of type DOUBLE")


def _items(name: str, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    items = [item.strip(_SPACES) for item in text.split(",")]
    if "" in items:
        raise invalid(name, text, "an item of the list is empty")
    return tuple(dict.fromkeys(items))


def _format_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f")
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    exponent = Decimal(repr(value)).adjusted()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent}"
