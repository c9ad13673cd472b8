"""What a running Kafka answers about configuration, on the raw wire."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyk.config.changes import Change
from pyk.config.description import Entry
from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages import alter_configs, incremental_alter_configs
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from pyk.wire.request import decode_response, encode_request

Address = tuple[str, int]

TOPIC, BROKER = 2, 4
PATIENCE, INTERVAL = 5.0, 0.01


class Answer(NamedTuple):
    """An entry of DescribeConfigs, without its documentation."""

    value: str | None
    source: int
    value_type: int
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, int], ...]


def asked(address: Address, key: ApiKey, version: int, request: object) -> Any:
    frame = b"".join(bytes(chunk) for chunk in encode_request(key, version, 1, "me", request))  # type: ignore[arg-type]
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(frame)
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            return decode_response(key, version, stream.read(size))[1]


def described(address: Address, kind: int, name: str) -> list[DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    result = asked(address, ApiKey.DESCRIBE_CONFIGS, 4, request).results[0]
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return []  # A topic is described some time after it is created.
    assert result.error_code == ErrorCode.NONE, result.error_message
    entries: list[DescribeConfigsResourceResult] = result.configs
    return entries


def theirs(address: Address, kind: int, name: str) -> dict[str, Answer]:
    return {
        entry.name: Answer(
            entry.value,
            entry.config_source,
            entry.config_type,
            entry.read_only,
            entry.is_sensitive,
            tuple((s.name, s.value, s.source) for s in entry.synonyms),
        )
        for entry in described(address, kind, name)
    }


def ours(entries: Sequence[Entry]) -> dict[str, Answer]:
    return {
        entry.name: Answer(
            entry.value,
            entry.source,
            entry.type,
            entry.read_only,
            entry.is_sensitive,
            tuple((s.name, s.value, int(s.source)) for s in entry.synonyms),
        )
        for entry in entries
    }


def created(address: Address, name: str, configs: Mapping[str, str | None]) -> ErrorCode:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
    return ErrorCode(asked(address, ApiKey.CREATE_TOPICS, 5, request).topics[0].error_code)


def altered(address: Address, kind: int, name: str, changes: Sequence[Change]) -> ErrorCode:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=change.name, config_operation=change.operation, value=change.value
            )
            for change in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    answer = asked(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    return ErrorCode(answer.responses[0].error_code)


def replaced(
    address: Address, kind: int, name: str, configs: Sequence[tuple[str, str | None]]
) -> ErrorCode:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    return ErrorCode(asked(address, ApiKey.ALTER_CONFIGS, 2, request).responses[0].error_code)


def settled(look: Callable[[], object], wanted: object) -> object:
    """What is seen once it is what is wanted, or at last: Kafka answers before it acts."""
    deadline = time.monotonic() + PATIENCE
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(INTERVAL)
    return seen
