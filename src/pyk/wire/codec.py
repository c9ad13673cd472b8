"""Reading and writing messages. Each version's code is compiled when it is first used."""

from __future__ import annotations

from typing import Any, TypeVar

from pyk.errors import ErrorCode, KafkaError
from pyk.types import Buffer
from pyk.wire.decoder import Decoder, compile_decoder
from pyk.wire.encoder import Chunks, Encoder, compile_encoder
from pyk.wire.message import layout
from pyk.wire.primitives import OBJECTS_MAX

T = TypeVar("T")


def decode(declared: type[T], version: int, buffer: Buffer, *, objects_max: int = OBJECTS_MAX) -> T:
    """The message at the start of `buffer`. Its records fields are views of the buffer, or copies
    if they are small.

    Bytes that are not such a message are a ProtocolError. Bytes after it are ignored, as Kafka
    ignores them.
    """
    decoder = _DECODERS.get((declared, version)) or decoder_of(declared, version)
    message: T = decoder(buffer, 0, objects_max)[0]
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
    decoder = _DECODERS.get((declared, version)) or decoder_of(declared, version)
    return decoder(buffer, position, objects_max)


def encode(message: Any, version: int) -> Chunks:
    """The message as chunks to be sent in order.

    A value that the version cannot carry is a KafkaError with UNSUPPORTED_VERSION.
    """
    declared = type(message)
    encoder = _ENCODERS.get((declared, version)) or encoder_of(declared, version)
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


def _check_version(declared: type, version: int) -> None:
    of = layout(declared)
    if not of.versions.covers(version):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{of.name} has versions {of.versions}, not {version}",
        )


_DECODERS: dict[tuple[type, int], Decoder] = {}
_ENCODERS: dict[tuple[type, int], Encoder] = {}
