"""Every API that the broker serves. Dispatch and ApiVersions both read this table.

A handler and its messages are imported when a client first asks for its API: a broker that has just
started has not paid for what nobody has called yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.types import Versions
from pyk.wire.apis import ApiKey, advertised, request_type


class Endpoint(Struct, frozen=True):
    """An API: what it reads, and the two functions that answer."""

    request: type
    handle: Callable[[Any, Call, Any], Awaitable[Any] | Any]
    """A plain function is the fast path. What it returns is the response, or an awaitable of it
    where that must wait, or None where the client expects no response."""
    refuse: Callable[[Any, KafkaError], Any]
    is_pipelined: bool = False
    """Whether the connection's next requests are handled while this one waits. What must happen in
    the order of the requests is then done before `handle` returns its awaitable."""
    repeats_itself: bool = False
    """Whether `handle` mostly gives the same response again, the very object."""


class Endpoints(Mapping[ApiKey, Endpoint]):
    """Endpoints, each loaded when it is first looked up."""

    def __init__(self, keys: Collection[ApiKey], load: Callable[[ApiKey], Endpoint]) -> None:
        self._keys = keys
        self._load = load
        self._loaded: dict[ApiKey, Endpoint] = {}

    def __getitem__(self, key: ApiKey) -> Endpoint:
        found = self._loaded.get(key)
        if found is None:
            if key not in self._keys:
                raise KeyError(key)
            found = self._loaded[key] = self._load(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.OFFSET_DELETE,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
"""Each is handled by the module beside this one that has its name, with `handle` and `refuse`."""


def _load(key: ApiKey) -> Endpoint:
    handler = import_module(f"pyk.handlers.{key.name.lower()}")
    return Endpoint(
        request_type(key),
        handler.handle,
        handler.refuse,
        is_pipelined=key is ApiKey.PRODUCE,
        repeats_itself=key is ApiKey.API_VERSIONS,
    )


ENDPOINTS: Final = Endpoints(SERVED, _load)


def served() -> dict[ApiKey, Versions]:
    """What ApiVersions says."""
    return {key: advertised(key) for key in ENDPOINTS}
