"""The table of all APIs that are served, each loaded when it is looked up."""

from __future__ import annotations

import pytest

from pyk.handlers.table import ENDPOINTS, SERVED, Endpoint, Endpoints
from pyk.wire.apis import UNDECLARED, ApiKey, request_type


@pytest.mark.parametrize("key", SERVED)
def test_every_api_that_is_served_has_its_handler(key: ApiKey) -> None:
    endpoint = ENDPOINTS[key]
    assert endpoint.request is request_type(key)
    assert callable(endpoint.handle)
    assert callable(endpoint.refuse)
    assert ENDPOINTS[key] is endpoint


def test_only_looking_one_up_loads_it() -> None:
    loaded = []

    def load(key: ApiKey) -> Endpoint:
        loaded.append(key)
        return ENDPOINTS[key]

    table = Endpoints((ApiKey.PRODUCE, ApiKey.FETCH), load)
    assert list(table) == [ApiKey.PRODUCE, ApiKey.FETCH]
    assert len(table) == 2
    assert ApiKey.PRODUCE in table
    assert ApiKey.HEARTBEAT not in table
    assert table.get(ApiKey.HEARTBEAT) is None
    assert loaded == []
    assert table[ApiKey.FETCH] is table[ApiKey.FETCH]
    assert loaded == [ApiKey.FETCH]


def test_what_has_no_messages_is_not_served() -> None:
    assert not UNDECLARED.keys() & set(SERVED)
