"""Reading and writing messages. Each version's code is compiled when it has been used a few times.

Most of what a broker is asked in its first moments it is not asked again soon, and to compile a
codec takes as long as to read or write some forty messages field by field.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

from pyk.errors import ErrorCode, KafkaError
from pyk.types import Buffer
from pyk.wire.decoder import compile_decoder
from pyk.wire.encoder import compile_encoder
from pyk.wire.message import layout
from pyk.wire.primitives import OBJECTS_MAX
from pyk.wire.reader import read_plainly
from pyk.wire.shapes import Chunks, Decoder, Encoder, Note, ignore
from pyk.wire.writer import has_more_elements_than, write_plainly

T = TypeVar("T")

PLAIN_USES: Final = 4
"""How many messages of a kind are read, or written, before it is worth to compile that."""
PLAIN_BYTES_MAX: Final = 4_096
"""A message of more bytes may have so many elements that compiling pays at once."""
PLAIN_ELEMENTS_MAX: Final = 100
"""One of more elements is compiled for at once."""


def decode(declared: type[T], version: int, buffer: Buffer, *, objects_max: int = OBJECTS_MAX) -> T:
    """The message at the start of `buffer`. Its records fields are views of the buffer, or copies
    if they are small.

    Bytes that are not such a message are a ProtocolError. Bytes after it are ignored, as Kafka
    ignores them.
    """
    message: T = read(declared, version, buffer, 0, objects_max=objects_max)[0]
    return message


def read(
    declared: type[T],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    objects_max: int = OBJECTS_MAX,
) -> tuple[T, int]:
    """The message at `position`, and the position after it."""
    decoder = _DECODERS.get((declared, version))
    if decoder is None:
        is_plain = len(buffer) <= PLAIN_BYTES_MAX and is_seldom(declared, version, "read")
        decoder = (plain_decoder_of if is_plain else decoder_of)(declared, version)
    return decoder(buffer, position, objects_max)


def encode(message: Any, version: int) -> Chunks:
    """The message as chunks to be sent in order.

    A value that the version cannot carry is a KafkaError with UNSUPPORTED_VERSION.
    """
    declared = type(message)
    encoder = _ENCODERS.get((declared, version))
    if encoder is None:
        is_plain = is_seldom(declared, version, "written")
        encoder = (plain_encoder_of if is_plain else encoder_of)(declared, version)
    return encoder(message)


def decoder_of(declared: type, version: int) -> Decoder:
    found = _DECODERS.get((declared, version))
    if found is None:
        _check_version(declared, version)
        found = _DECODERS[declared, version] = compile_decoder(declared, version)
    return found


def encoder_of(declared: type, version: int) -> Encoder:
    found = _ENCODERS.get((declared, version))
    if found is None:
        _check_version(declared, version)
        found = _ENCODERS[declared, version] = compile_encoder(declared, version)
    return found


def plain_decoder_of(declared: type, version: int) -> Decoder:
    """One that is not compiled."""
    _check_version(declared, version)
    return partial(read_plainly, declared, version)


def plain_encoder_of(declared: type, version: int) -> Encoder:
    """One that is not compiled, unless it meets a message that is worth it."""
    _check_version(declared, version)

    def write(message: Any, note: Note = ignore) -> Chunks:
        if has_more_elements_than(message, PLAIN_ELEMENTS_MAX):
            return encoder_of(declared, version)(message, note)
        return write_plainly(version, message, note)

    return write


def is_seldom(declared: type, version: int, done: str) -> bool:
    """Whether to do it once more with what is not compiled. It is counted."""
    uses = _USES[declared, version, done] = _USES.get((declared, version, done), 0) + 1
    return uses <= PLAIN_USES


def _check_version(declared: type, version: int) -> None:
    of = layout(declared)
    if not of.versions.covers(version):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{of.name} has versions {of.versions}, not {version}",
        )


_DECODERS: dict[tuple[type, int], Decoder] = {}
_ENCODERS: dict[tuple[type, int], Encoder] = {}
_USES: dict[tuple[type, int, str], int] = {}
