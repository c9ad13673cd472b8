"""What a handler gives, and what a test puts around it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from pyk.handlers.call import Call, InTurn
from pyk.handlers.context import Context

Outcome: TypeAlias = Any
"""A response, an awaitable of one, or None for no answer."""

Handle: TypeAlias = Callable[[Any, Call, Context], Outcome]
Behaviour: TypeAlias = Callable[[Handle, Any, Call, Context], Outcome]


class Later(Coroutine[Any, Any, Any]):
    """What waits for a handler that waits. Whoever abandons it abandons both."""

    def __init__(self, outer: Coroutine[Any, Any, Any], inner: object) -> None:
        self._outer = outer
        self._inner = inner

    def __await__(self) -> Any:
        return self._outer.__await__()

    def send(self, value: Any) -> Any:
        return self._outer.send(value)

    def throw(self, *error: Any) -> Any:
        return self._outer.throw(*error)

    def close(self) -> None:
        self._outer.close()
        if isinstance(self._inner, Coroutine):
            self._inner.close()


def later(outer: Coroutine[Any, Any, Any], inner: object) -> Later | InTurn:
    """What comes later, and in the order of the requests if that is so of the handler's."""
    if isinstance(inner, InTurn):
        return InTurn(Later(outer, inner.outcome))
    return Later(outer, inner)
