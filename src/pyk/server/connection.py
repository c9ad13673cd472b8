"""A connection: requests in, answers out, in the same order."""

from __future__ import annotations

import logging
from typing import Any

import trio

from pyk.errors import KafkaError, ProtocolError
from pyk.handlers import api_versions
from pyk.handlers.call import Call
from pyk.handlers.table import ENDPOINTS, served
from pyk.types import FileSlice
from pyk.wire.apis import ApiKey
from pyk.wire.codec import read
from pyk.wire.encoder import Chunks
from pyk.wire.frames import FrameReader
from pyk.wire.message import layout
from pyk.wire.request import api_key, encode_response, read_header

FRAME_BYTES_MAX = 100 * 1024**2

logger = logging.getLogger(__name__)


async def serve_connection(stream: trio.abc.Stream) -> None:
    """Answer until the client hangs up or sends what is not the protocol."""
    frames = FrameReader(FRAME_BYTES_MAX)
    try:
        while data := await stream.receive_some():
            for frame in frames.feed(data):
                for chunk in await respond(frame):
                    assert not isinstance(chunk, FileSlice)
                    await stream.send_all(chunk)
    except ProtocolError as broken:
        logger.warning("closing a connection: %s", broken)
    except trio.BrokenResourceError:
        logger.debug("a client hung up")
    except Exception:
        logger.exception("closing a connection after a bug")
    finally:
        await trio.aclose_forcefully(stream)


async def respond(frame: bytes) -> Chunks:
    header, position = read_header(frame)
    key, version = api_key(header.request_api_key), header.request_api_version
    endpoint = ENDPOINTS.get(key)
    if endpoint is None:
        raise ProtocolError(f"{key.name} is not served")
    if not layout(endpoint.request).versions.covers(version):
        if key is not ApiKey.API_VERSIONS:
            raise ProtocolError(f"{key.name} v{version} is not served")
        return encode_response(key, 0, header.correlation_id, api_versions.unsupported(served()))
    request: Any
    request, _ = read(endpoint.request, version, frame, position)
    call = Call(version, header.client_id)
    try:
        response = await endpoint.handle(request, call, served())
    except KafkaError as refusal:
        response = endpoint.refuse(request, refusal)
    return encode_response(key, version, header.correlation_id, response)
