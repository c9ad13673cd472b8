"""Who looks after a group: the broker that keeps its members and offsets.

Coordinators move, and a new one has to read what the old one wrote. What is refused for that reason
is asked again of whoever it is then, until the client's patience is over.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
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
"""Since Kafka 3.0 one request is about many groups."""

Result = TypeVar("Result")


def ask_coordinators(
    cluster: Cluster,
    groups: Iterable[str],
    ask: Callable[[Connection, list[str]], dict[str, Result]],
    error_of: Callable[[Result], KafkaError | None],
) -> dict[str, Result | KafkaError]:
    """What each group's coordinator answers to `ask`, with a group for each of its results. Raise
    KafkaError if the broker is too old to be asked."""
    results: dict[str, Result | KafkaError] = {}
    left = list(dict.fromkeys(groups))
    deadline = time.monotonic() + cluster.settings.patience
    while left:
        found, failed = _ask_once(cluster, left, ask)
        failed |= {group: error for group, result in found.items() if (error := error_of(result))}
        is_late = time.monotonic() >= deadline
        left = [group for group, error in failed.items() if error.code in PASSING and not is_late]
        outcome: dict[str, Result | KafkaError] = {**found, **failed}
        results.update({group: each for group, each in outcome.items() if group not in left})
        for group in left:
            cluster.coordinators.pop(group, None)
        if left:
            time.sleep(BACKOFF)
    return results


def _ask_once(
    cluster: Cluster,
    groups: Collection[str],
    ask: Callable[[Connection, list[str]], dict[str, Result]],
) -> tuple[dict[str, Result], dict[str, KafkaError]]:
    found: dict[str, Result] = {}
    failed = _find(cluster, [group for group in groups if group not in cluster.coordinators])
    by_broker: dict[int, list[str]] = defaultdict(list)
    for group in groups:
        if group not in failed:
            by_broker[cluster.coordinators[group]].append(group)
    for broker_id, asked in by_broker.items():
        connection = None
        try:
            connection = cluster.broker(broker_id)
            found |= ask(connection, asked)
        except Unreachable as error:
            failed |= dict.fromkeys(asked, _unreachable(error))
            if connection is not None:
                cluster.forget(connection)
    return found, failed


def _find(cluster: Cluster, groups: list[str]) -> dict[str, KafkaError]:
    """Learn who coordinates these. The errors of those of which nobody knows now."""
    if not groups:
        return {}
    cluster.any_broker().version_of(ApiKey.FIND_COORDINATOR, _MANY_KEYS)
    answer = cluster.ask(FindCoordinatorRequest(coordinator_keys=groups), FindCoordinatorResponse)
    failed = {}
    for found in answer.coordinators:
        if found.error_code:
            code = ErrorCode(found.error_code)
            failed[found.key] = KafkaError(code, found.error_message or None)
        else:
            cluster.coordinators[found.key] = found.node_id
    return failed


def _unreachable(error: Unreachable) -> KafkaError:
    return KafkaError(
        ErrorCode.NETWORK_EXCEPTION, f"the group's coordinator is not reachable: {error}"
    )
