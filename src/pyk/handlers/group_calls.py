"""What handlers of groups share: who calls, and answers that may have to wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar

from pyk.coordinator.group import Caller
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call

A = TypeVar("A")
B = TypeVar("B")


def caller_of(call: Call) -> Caller:
    return Caller(call.version, call.client_id or "", f"/{call.peer.host}")


def check_group_id(group_id: str | None) -> None:
    """Raise KafkaError. Offsets may be committed for a group without a name; it has no members."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def then(
    outcome: A | Awaitable[A], answer: Callable[[A], B], refuse: Callable[[KafkaError], B]
) -> B | Awaitable[B]:
    """The answer to what a coordinator says: at once if it has said it, or else later."""
    if isawaitable(outcome):
        return _later(outcome, answer, refuse)
    return answer(outcome)


async def _later(
    outcome: Awaitable[A], answer: Callable[[A], B], refuse: Callable[[KafkaError], B]
) -> B:
    try:
        return answer(await outcome)
    except KafkaError as refusal:
        return refuse(refusal)


def together(
    outcomes: list[Any | Awaitable[Any]], answer: Callable[[list[Any]], B]
) -> B | Awaitable[B]:
    """One answer of several, of which some may have to wait."""
    if any(isawaitable(outcome) for outcome in outcomes):
        return _all_of(outcomes, answer)
    return answer(outcomes)


async def _all_of(outcomes: list[Any | Awaitable[Any]], answer: Callable[[list[Any]], B]) -> B:
    return answer([await o if isawaitable(o) else o for o in outcomes])
