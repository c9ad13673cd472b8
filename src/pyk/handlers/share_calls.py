"""What handlers of share groups share: whether the cluster has such groups, and waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, TypeVar

import trio

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


async def to_the_end(run: Callable[[], Awaitable[T]], broker: Context) -> T:
    """The outcome of a change in several steps. It goes on if its client hangs up: who is left with
    half of it would begin anew elsewhere. Raise KafkaError."""
    outcomes: list[T | KafkaError] = []
    done = trio.Event()

    async def carry_out() -> None:
        try:
            outcomes.append(await run())
        except KafkaError as refusal:
            outcomes.append(refusal)
        finally:
            done.set()

    broker.start_soon(carry_out)
    await done.wait()
    outcome = outcomes[0] if outcomes else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome
