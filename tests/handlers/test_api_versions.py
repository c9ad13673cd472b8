"""ApiVersions: a client says what it is, and only what looks like a name is one."""

from __future__ import annotations

from typing import cast

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import api_versions
from pyk.handlers.call import Call, Peer
from pyk.handlers.context import Context
from pyk.wire.messages.api_versions import ApiVersionsRequest
from tests.handlers.brokers import ask

NOBODY = Peer(connection_id="", listener="", host="", port=0, reached_host="", reached_port=0)


@pytest.mark.parametrize("name", ["", "-", "a_b", "ünicode", "a-", "a b"])
def test_a_software_name_must_look_like_one(name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    with pytest.raises(KafkaError) as refused:
        api_versions.handle(request, Call(3, None, NOBODY), cast("Context", None))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert NOBODY.software_name == "unknown"


@pytest.mark.parametrize("version", [3, 4])
async def test_levels_from_zero_are_for_clients_that_read_them(
    broker: Context, version: int
) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = await ask(api_versions.handle, api_versions.refuse, request, broker, version)
    names = {each.name: each.min_version for each in answer.supported_features}
    assert (0 in names.values()) == (version >= 4)
    assert "metadata.version" in names
    assert {each.name for each in answer.finalized_features} >= {"group.version"}
