"""What codecs look like from outside, whether they are compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from pyk.types import Records
from pyk.wire.fields import INT16, Field
from pyk.wire.primitives import OBJECTS_MAX

Chunks: TypeAlias = list[Records]
Note: TypeAlias = Callable[[int], object]
"""Who hears of each error code in a response that is not 0."""


class Encoder(Protocol):
    """From a message to its chunks."""

    def __call__(self, message: Any, note: Note = ..., /) -> Chunks: ...


ERROR_CODE = "error_code"
"""How the names of fields end that are one."""


class Decoder(Protocol):
    """From a buffer to the message in it, and the position after that."""

    def __call__(
        self, buffer: Any, position: int = 0, budget: int = OBJECTS_MAX, /
    ) -> tuple[Any, int]: ...


def ignore(error_code: int) -> None:
    """Nobody wants to hear of it."""


def is_error_code(field: Field) -> bool:
    return field.kind is INT16 and field.name.endswith(ERROR_CODE)
