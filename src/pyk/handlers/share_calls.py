"""What handlers of share groups share: whether the cluster has such groups, and waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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


def to_the_end(run: Callable[[], Awaitable[T]], broker: Context) -> Awaitable[T]:
    """The outcome of what takes several steps. It goes on if its client hangs up: who is left with
    half of it would begin anew elsewhere. It raises KafkaError."""
    outcomes: list[T | KafkaError] = []
    done = trio.Event()

    async def carry_out() -> None:
        try:
            outcomes.append(await run())
        except KafkaError as refusal:
            outcomes.append(refusal)
        finally:
            done.set()

    async def outcome() -> T:
        await done.wait()
        found = outcomes[0] if outcomes else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(found, KafkaError):
            raise found
        return found

    broker.start_soon(carry_out)
    return outcome()


def to_the_end_in_turn(
    group_id: str, run: Callable[[], Awaitable[T]], broker: Context
) -> Awaitable[T]:
    """The same for what is done to the states of a share group: one after the other."""

    async def run_in_turn() -> T:
        async with broker.share_lifecycle.turn(group_id):
            return await run()

    return to_the_end(run_in_turn, broker)
