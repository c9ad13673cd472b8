"""Every API that the broker serves. Dispatch and ApiVersions both read this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyk.errors import KafkaError
from pyk.handlers import api_versions
from pyk.handlers.call import Call
from pyk.types import Versions
from pyk.wire.apis import ApiKey, request_type
from pyk.wire.message import layout
from pyk.wire.messages.api_versions import ApiVersionsRequest


@dataclass(frozen=True, slots=True)
class Endpoint:
    request: type
    handle: Callable[[Any, Call, Any], Awaitable[Any]]
    refuse: Callable[[Any, KafkaError], Any]


ENDPOINTS: dict[ApiKey, Endpoint] = {
    ApiKey.API_VERSIONS: Endpoint(ApiVersionsRequest, api_versions.handle, api_versions.refuse),
}


def served() -> dict[ApiKey, Versions]:
    """What ApiVersions says. It is wider than what is answered where clients need it so."""
    return {key: layout(request_type(key)).advertised for key in ENDPOINTS}
