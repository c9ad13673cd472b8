"""The versions that pyk would advertise are those that a running Kafka does."""

from __future__ import annotations

import socket
from collections.abc import Callable

from compat_tests.kafka.server import kafka_server
from pyk.types import Versions
from pyk.wire.apis import UNDECLARED, ApiKey, advertised
from pyk.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.request import decode_response, encode_request

NOT_ON_THE_LISTENER = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "shown only where a receiver of telemetry is configured",
    ApiKey.PUSH_TELEMETRY: "shown only where a receiver of telemetry is configured",
}


def api_versions(address: tuple[str, int]) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="pyk", client_software_version="1")
    with socket.create_connection(address, timeout=10) as connection:
        for chunk in encode_request(ApiKey.API_VERSIONS, 4, 1, "judge", request):
            assert isinstance(chunk, bytes)
            connection.sendall(chunk)
        stream = connection.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 4, frame)
    assert correlation_id == 1
    assert isinstance(response, ApiVersionsResponse)
    return response


def test_kafka_advertises_what_is_declared(report: Callable[[str], None]) -> None:
    with kafka_server() as kafka:
        response = api_versions((kafka.host, kafka.port))
    theirs = {
        ApiKey(api.api_key): Versions(api.min_version, api.max_version) for api in response.api_keys
    }
    ours = {
        key: advertised(key)
        for key in ApiKey
        if key not in UNDECLARED and key not in NOT_ON_THE_LISTENER
    }
    report(f"{len(theirs)} APIs advertised by a running Kafka, in the declared versions")
    assert ours == theirs
