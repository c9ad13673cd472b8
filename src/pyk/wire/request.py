"""Requests and responses as frames: size, header, body. The broker's side and the client's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyk.errors import ProtocolError
from pyk.types import Buffer
from pyk.wire.apis import UNDECLARED, ApiKey, request_type, response_type
from pyk.wire.codec import encode, encoder_of, read
from pyk.wire.headers import RequestHeader, ResponseHeader
from pyk.wire.message import layout
from pyk.wire.primitives import OBJECTS_MAX
from pyk.wire.shapes import Chunks, Encoder, Note, ignore
from pyk.wire.source import COPIED_BYTES_MAX, packed

HEADER_BYTES_MAX = 36_864
"""The longest client id there can be, and room for tagged fields that we do not know."""
FRAME_BYTES_MAX = 2**31 - 1
"""As many as a frame's size can say."""


def read_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request frame, and where its body starts.

    The version is not judged here: ApiVersions is answered whatever the version, see KIP-511.
    """
    if len(frame) < 8:
        raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
    number, version = packed("hh").unpack_from(frame)
    key = api_key(number)
    flexible = layout(request_type(key)).flexible.covers(version)
    return read(RequestHeader, 2 if flexible else 1, _head(frame))


def api_key(number: int) -> ApiKey:
    try:
        key = ApiKey(number)
    except ValueError:
        raise ProtocolError(f"there is no API with the key {number}") from None
    if key in UNDECLARED:
        raise ProtocolError(f"{key.name} is not served: {UNDECLARED[key]}")
    return key


def encode_request(
    key: ApiKey, version: int, correlation_id: int, client_id: str | None, request: Any
) -> Chunks:
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    flexible = layout(request_type(key)).flexible.covers(version)
    return framed(encode(header, 2 if flexible else 1), encode(request, version))


def encode_response(key: ApiKey, version: int, correlation_id: int, response: Any) -> Chunks:
    encode_body = encoder_of(response_type(key), version)
    return response_encoder(key, version, encode_body)(correlation_id, response)


def response_encoder(
    key: ApiKey, version: int, encode_body: Encoder, note: Note = ignore
) -> Callable[[int, Any], Chunks]:
    """What `encode_response` does for one API and version, without looking things up again."""
    is_flexible = response_header_version(key, version) == 1
    pack = packed("iix" if is_flexible else "ii").pack
    head_bytes = 5 if is_flexible else 4

    def encode_framed(correlation_id: int, response: Any) -> Chunks:
        chunks = encode_body(response, note)
        first = chunks[0]
        assert isinstance(first, bytes)
        size = head_bytes + (len(first) if len(chunks) == 1 else sum(map(len, chunks)))
        if size > FRAME_BYTES_MAX:
            raise ProtocolError(f"an answer to {key.name} of {size} bytes has no frame")
        if len(first) <= COPIED_BYTES_MAX:
            chunks[0] = pack(size, correlation_id) + first
        else:
            chunks.insert(0, pack(size, correlation_id))
        return chunks

    return encode_framed


def decode_response(
    key: ApiKey, version: int, frame: Buffer, *, objects_max: int = OBJECTS_MAX
) -> tuple[int, Any]:
    """The correlation id and the response. Its records are views of the frame."""
    header, position = read(ResponseHeader, response_header_version(key, version), _head(frame))
    response: Any
    response, _ = read(response_type(key), version, frame, position, objects_max=objects_max)
    return header.correlation_id, response


def response_header_version(key: ApiKey, version: int) -> int:
    # A client that asks for ApiVersions does not know yet what we speak: it gets the old header.
    if key is ApiKey.API_VERSIONS:
        return 0
    return 1 if layout(response_type(key)).flexible.covers(version) else 0


def _head(frame: Buffer) -> Buffer:
    """As much of a frame as a header may take, without a copy of it."""
    return frame if len(frame) <= HEADER_BYTES_MAX else memoryview(frame)[:HEADER_BYTES_MAX]


def framed(*parts: Chunks) -> Chunks:
    """The chunks of all parts behind their size, the first ones joined to one."""
    chunks = [chunk for part in parts for chunk in part]
    size = sum(map(len, chunks))
    heads = len(parts[0]) + 1
    head = b"".join([packed("i").pack(size), *chunks[:heads]])  # type: ignore[list-item]
    return [head, *chunks[heads:]]
