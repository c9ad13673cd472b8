"""Every API that the broker serves. Dispatch and ApiVersions both read this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyk.errors import KafkaError
from pyk.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    update_features,
)
from pyk.handlers.call import Call
from pyk.types import Versions
from pyk.wire.apis import ApiKey, request_type
from pyk.wire.message import layout


@dataclass(frozen=True, slots=True)
class Endpoint:
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


HANDLERS: dict[ApiKey, Any] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
"""The modules, each with `handle` and `refuse`."""

ENDPOINTS: dict[ApiKey, Endpoint] = {
    key: Endpoint(
        request_type(key),
        handler.handle,
        handler.refuse,
        is_pipelined=key is ApiKey.PRODUCE,
        repeats_itself=key is ApiKey.API_VERSIONS,
    )
    for key, handler in HANDLERS.items()
}


def served() -> dict[ApiKey, Versions]:
    """What ApiVersions says. It is wider than what is answered where clients need it so."""
    return {key: layout(request_type(key)).advertised for key in ENDPOINTS}
