"""Who looks after a group or a transactional id: the broker that keeps what is known of it.

Coordinators move, and a new one has to read what the old one wrote. What is refused for that reason
is asked again of whoever it is then, until the client's patience is over.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from typing import Final, TypeVar

from pyk.client.cluster import BACKOFF, Cluster
from pyk.client.connection import Connection, Unreachable
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Versions
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_MANY_KEYS: Final = Versions(4, 6)
"""Since Kafka 3.0 one request is about many keys."""

Result = TypeVar("Result")


class KeyType(IntEnum):
    """What a coordinator looks after."""

    GROUP = 0
    TRANSACTION = 1


def ask_coordinators(
    cluster: Cluster,
    keys: Iterable[str],
    ask: Callable[[Connection, list[str]], dict[str, Result]],
    error_of: Callable[[Result], KafkaError | None],
    key_type: KeyType = KeyType.GROUP,
) -> dict[str, Result | KafkaError]:
    """What each key's coordinator answers to `ask`, with a key for each of its results. Raise
    KafkaError if the broker is too old to be asked, Unreachable if nobody answers from the start.
    """
    results: dict[str, Result | KafkaError] = {}
    left = list(dict.fromkeys(keys))
    deadline = time.monotonic() + cluster.settings.patience
    has_asked = False
    while left:
        try:
            found, failed = _ask_once(cluster, left, ask, key_type)
        except Unreachable as lost:
            if not has_asked:
                raise
            found, failed = {}, dict.fromkeys(left, _unreachable(lost, key_type))
        has_asked = True
        failed |= {key: error for key, result in found.items() if (error := error_of(result))}
        is_late = time.monotonic() >= deadline
        left = [key for key, error in failed.items() if error.code in PASSING and not is_late]
        outcome: dict[str, Result | KafkaError] = {**found, **failed}
        results.update({key: each for key, each in outcome.items() if key not in left})
        for key in left:
            cluster.coordinators.pop((key_type, key), None)
        if left:
            time.sleep(BACKOFF)
    return results


def _ask_once(
    cluster: Cluster,
    keys: Collection[str],
    ask: Callable[[Connection, list[str]], dict[str, Result]],
    key_type: KeyType,
) -> tuple[dict[str, Result], dict[str, KafkaError]]:
    found: dict[str, Result] = {}
    failed = _find(
        cluster, [key for key in keys if (key_type, key) not in cluster.coordinators], key_type
    )
    by_broker: dict[int, list[str]] = defaultdict(list)
    for key in keys:
        if key not in failed:
            by_broker[cluster.coordinators[key_type, key]].append(key)
    for broker_id, asked in by_broker.items():
        connection = None
        try:
            connection = cluster.broker(broker_id)
            found |= ask(connection, asked)
        except Unreachable as error:
            failed |= dict.fromkeys(asked, _unreachable(error, key_type))
            if connection is not None:
                cluster.forget(connection)
    return found, failed


def _find(cluster: Cluster, keys: list[str], key_type: KeyType) -> dict[str, KafkaError]:
    """Learn who coordinates these. The errors of those of which nobody knows now."""
    if not keys:
        return {}
    cluster.any_broker().version_of(ApiKey.FIND_COORDINATOR, _MANY_KEYS)
    request = FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)
    answer = cluster.ask(request, FindCoordinatorResponse)
    failed = {}
    for found in answer.coordinators:
        if found.error_code:
            code = ErrorCode(found.error_code)
            failed[found.key] = KafkaError(code, found.error_message or None)
        else:
            cluster.coordinators[key_type, found.key] = found.node_id
    return failed


def _unreachable(error: Unreachable, key_type: KeyType) -> KafkaError:
    whose = "group" if key_type is KeyType.GROUP else "transactional id"
    return KafkaError(
        ErrorCode.NETWORK_EXCEPTION, f"the {whose}'s coordinator is not reachable: {error}"
    )
