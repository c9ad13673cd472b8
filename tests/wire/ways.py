"""Reading and writing messages in both ways that there are: compiled, and field by field.

Here they have the names that `pyk.wire.codec` has, and must agree before anything else is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyk.types import Buffer, Records
from pyk.wire.codec import decoder_of, encoder_of, plain_decoder_of, plain_encoder_of
from pyk.wire.primitives import OBJECTS_MAX
from pyk.wire.writer import write_plainly

T = TypeVar("T")


def decode(declared: type[T], version: int, buffer: Buffer, *, objects_max: int = OBJECTS_MAX) -> T:
    return read(declared, version, buffer, objects_max=objects_max)[0]


def read(
    declared: type[T],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    objects_max: int = OBJECTS_MAX,
) -> tuple[T, int]:
    def found(decoder_of: Callable[[type, int], Any]) -> tuple[T, int]:
        result: tuple[T, int] = decoder_of(declared, version)(buffer, position, objects_max)
        return result

    return agreed(lambda: found(decoder_of), lambda: found(plain_decoder_of))


def encode(message: Any, version: int) -> list[Records]:
    declared = type(message)

    def plainly() -> list[Records]:
        plain_encoder_of(declared, version)  # It refuses versions that there are not.
        return write_plainly(version, message)

    return agreed(lambda: encoder_of(declared, version)(message), plainly)


def agreed(compiled: Callable[[], T], plain: Callable[[], T]) -> T:
    """What both give, or the refusal of the one that is compiled, if the other refuses too."""
    try:
        expected = compiled()
    except Exception as refusal:
        try:
            found = plain()
        except type(refusal):
            raise refusal from None
        raise AssertionError(f"{found} is refused: {refusal}") from refusal
    found = plain()
    # NaN is not equal to itself, and looks the same.
    assert found == expected or repr(found) == repr(expected)
    return expected
