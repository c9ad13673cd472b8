"""What handlers of share groups share: whether the cluster has such groups, and waiting."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Final, TypeVar

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.context import Context

FEATURE: Final = "share.version"

T = TypeVar("T")


def check_enabled(broker: Context) -> None:
    """Raise KafkaError if the cluster has not agreed on share groups."""
    if not broker.image.features.levels.get(FEATURE, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_group_id(group_id: str) -> None:
    """Raise KafkaError."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


async def settled(outcome: T | Awaitable[T]) -> T:
    """What a coordinator says, once it has said it. Raise KafkaError."""
    if isawaitable(outcome):
        found: T = await outcome
        return found
    return outcome
