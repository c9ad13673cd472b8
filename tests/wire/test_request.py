"""Requests and responses with their headers, as they stand on a connection."""

from __future__ import annotations

import io
import struct
from tempfile import TemporaryFile

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest as KioApiVersionsRequest
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from pyk.errors import ProtocolError
from pyk.types import FileSlice, Versions
from pyk.wire.apis import UNDECLARED, ApiKey, advertised, request_type, response_type
from pyk.wire.message import layout
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyk.wire.request import decode_response, encode_request, encode_response, read_header


def only(chunks: list[object]) -> bytes:
    (chunk,) = chunks
    assert isinstance(chunk, bytes)
    assert int.from_bytes(chunk[:4], "big") == len(chunk) - 4
    return chunk[4:]


def test_a_flexible_request_has_the_header_that_kio_writes() -> None:
    written = io.BytesIO()
    entity_writer(KioRequestHeader)(
        written,
        KioRequestHeader(
            request_api_key=i16(18),
            request_api_version=i16(3),
            correlation_id=i32(7),
            client_id="me",
        ),
    )
    entity_writer(KioApiVersionsRequest)(
        written,
        KioApiVersionsRequest(client_software_name="pyk", client_software_version="1"),
    )
    request = ApiVersionsRequest(client_software_name="pyk", client_software_version="1")
    chunks = encode_request(ApiKey.API_VERSIONS, 3, 7, "me", request)
    assert only([*chunks]) == written.getvalue()
    header, position = read_header(written.getvalue())
    assert (header.request_api_key, header.request_api_version) == (18, 3)
    assert (header.correlation_id, header.client_id) == (7, "me")
    assert written.getvalue()[position:] == b"\x04pyk\x021\x00"


def test_an_old_request_has_an_old_header_and_may_have_no_client_id() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = only([*encode_request(ApiKey.HEARTBEAT, 0, 9, None, request)])
    assert frame[:10] == struct.pack(">hhih", 12, 0, 9, -1)
    header, position = read_header(frame)
    assert (header.client_id, position) == (None, 10)


@pytest.mark.parametrize(("version", "header_bytes"), [(0, 4), (3, 4), (4, 5)])
def test_a_flexible_response_has_a_flexible_header(version: int, header_bytes: int) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = only([*encode_response(ApiKey.HEARTBEAT, version, 5, response)])
    assert frame[:4] == b"\0\0\0\5"
    body_bytes = {0: 2, 3: 6, 4: 7}[version]
    assert len(frame) == header_bytes + body_bytes
    assert decode_response(ApiKey.HEARTBEAT, version, frame) == (5, response)


def test_the_answer_to_api_versions_always_has_the_oldest_header() -> None:
    key = ApiVersion(api_key=18, min_version=0, max_version=4)
    response = ApiVersionsResponse(api_keys=[key])
    for version in range(5):
        frame = only([*encode_response(ApiKey.API_VERSIONS, version, 5, response)])
        assert frame[:6] == b"\0\0\0\5" + b"\0\0"
        assert decode_response(ApiKey.API_VERSIONS, version, frame) == (5, response)


def test_the_size_counts_what_is_still_in_a_file() -> None:
    with TemporaryFile() as file:
        records = FileSlice(file, 0, 100_000)
    part = PartitionData(partition_index=0, high_watermark=9, records=records)
    topic = FetchableTopicResponse(topic="t", partitions=[part])
    chunks = encode_response(ApiKey.FETCH, 12, 5, FetchResponse(responses=[topic]))
    head = chunks[0]
    assert isinstance(head, bytes)
    assert int.from_bytes(head[:4], "big") == sum(map(len, chunks)) - 4


def test_a_header_cut_anywhere_is_refused() -> None:
    request = ApiVersionsRequest(client_software_name="pyk", client_software_version="1")
    frame = only([*encode_request(ApiKey.API_VERSIONS, 3, 7, "me", request)])
    _, position = read_header(frame)
    for size in range(position):
        with pytest.raises(ProtocolError):
            read_header(frame[:size])


@pytest.mark.parametrize("number", [-1, 93, 32_767, -32_768])
def test_an_unknown_api_is_refused(number: int) -> None:
    with pytest.raises(ProtocolError, match=f"no API with the key {number}"):
        read_header(struct.pack(">hhih", number, 0, 1, -1))


@pytest.mark.parametrize("key", UNDECLARED)
def test_an_api_without_messages_is_refused_with_the_reason(key: ApiKey) -> None:
    with pytest.raises(ProtocolError, match=UNDECLARED[key]):
        read_header(struct.pack(">hhih", key, 0, 1, -1))


@pytest.mark.parametrize("key", ApiKey)
def test_every_other_api_has_its_two_messages(key: ApiKey) -> None:
    if key not in UNDECLARED:
        request, response = layout(request_type(key)), layout(response_type(key))
        assert request.api_key == response.api_key == key
        assert request.versions == response.versions


@pytest.mark.parametrize("key", ApiKey)
def test_what_is_advertised_can_be_read_and_written(key: ApiKey) -> None:
    if key in UNDECLARED:
        with pytest.raises(KeyError):
            advertised(key)
        return
    known = layout(request_type(key)).versions
    # Old librdkafka looks for the versions of Produce that are gone, and InitProducerId v6
    # (KIP-939) is not stable yet.
    told = {ApiKey.PRODUCE: Versions(0, 13), ApiKey.INIT_PRODUCER_ID: Versions(0, 5)}
    assert advertised(key) == told.get(key, known)


def test_a_long_client_id_and_a_tagged_field_are_no_trouble() -> None:
    frame = struct.pack(">hhih", 18, 3, 1, 32_767) + b"c" * 32_767 + b"\x01\x09\x03abc" + b"body"
    header, position = read_header(frame)
    assert header.client_id == "c" * 32_767
    assert frame[position:] == b"body"
