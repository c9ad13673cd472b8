"""Failures of requests: which ones are to go wrong, and how."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.testing import misbehaviour
from pyk.testing.fault import Fault, Soon
from pyk.testing.outcome import Behaviour
from pyk.testing.scope import Scope

if TYPE_CHECKING:
    from pyk.testing.faults import Faults


class RequestFault(Fault):
    """Of the requests in a scope, all or the next ones."""

    def __init__(
        self, what: str, scope: Scope, times: int | None, lift: Callable[[Fault], None]
    ) -> None:
        super().__init__(f"{what} for {scope}", lambda: lift(self))
        self.scope = scope
        self._left = times

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def take(self) -> None:
        """One of the requests that it is for has come."""
        if self._left is not None:
            self._left -= 1

    def hit(self) -> None:
        self.take()
        self.count()


class Late(RequestFault):
    """Answers come later. It counts when one has begun to wait, so that whoever waits for that can
    let it go, by the clock or by hand."""

    def hit(self) -> None:
        self.take()


class Delay(Late):
    def __init__(
        self, seconds: float, scope: Scope, times: int | None, lift: Callable[[Fault], None]
    ) -> None:
        super().__init__(f"delay by {seconds} s", scope, times, lift)
        self._seconds = seconds

    def begin(self) -> Callable[[], Awaitable[None]]:
        deadline = trio.current_time() + self._seconds
        self.count()
        return partial(trio.sleep_until, deadline)


class Hold(Late):
    """Answers wait until they are released."""

    def __init__(
        self, scope: Scope, times: int | None, lift: Callable[[Fault], None], soon: Soon
    ) -> None:
        super().__init__("hold", scope, times, lift)
        self._soon = soon
        self._lock = threading.Lock()
        self._held: list[trio.Event] = []

    def begin(self) -> Callable[[], Awaitable[None]]:
        released = trio.Event()
        with self._lock:
            if self.is_lifted:
                released.set()
            else:
                self._held.append(released)
        self.count()
        return released.wait

    def release(self) -> None:
        """Let the answers go that are held now."""
        with self._lock:
            held, self._held = self._held, []
        for released in held:
            self._soon(released.set)

    def lift(self) -> None:
        with self._lock:
            super().lift()
        self.release()


class Target:
    """The requests that a fault is to be about."""

    def __init__(self, faults: Faults, scope: Scope, times: int | None) -> None:
        self._faults = faults
        self._scope = scope
        self._times = times

    def refuse(self, error: ErrorCode | str | int, message: str | None = None) -> Fault:
        """Answer with an error, and do nothing. Where an API answers for each partition by itself,
        those in the scope are refused and the others handled."""
        code = _error_code(error)
        refusal = KafkaError(code, message or "refused by a test")
        covers = self._scope.covers_partition
        return self._add(f"refuse with {code.name}", misbehaviour.refusing(refusal, covers))

    def delay(self, seconds: float) -> Fault:
        """Handle requests, and answer so much later on the broker's clock."""
        fault = Delay(seconds, self._scope, self._times, self._faults.remove)
        return self._faults.add(fault, misbehaviour.late(fault.begin))

    def hold(self) -> Hold:
        """Handle requests, and answer when this is released or lifted."""
        fault = Hold(self._scope, self._times, self._faults.remove, self._faults.call_soon)
        return self._faults.add(fault, misbehaviour.late(fault.begin))

    def cut_before(self) -> Fault:
        """Close the connection, and do not handle the request."""
        return self._add("cut before", misbehaviour.cut_before)

    def cut_after(self) -> Fault:
        """Handle the request, and close the connection instead of an answer: it is done, and the
        client does not know."""
        return self._add("cut after", misbehaviour.cut_after)

    def drop_request(self) -> Fault:
        """Neither handle nor answer. The connection stays open and says nothing more, as one whose
        packets are lost."""
        return self._add("drop the request", misbehaviour.drop_request)

    def drop_answer(self) -> Fault:
        """Handle the request, and never answer. The connection stays open and says nothing more."""
        return self._add("drop the answer", misbehaviour.drop_answer)

    def _add(self, what: str, behaviour: Behaviour) -> Fault:
        fault = RequestFault(what, self._scope, self._times, self._faults.remove)
        return self._faults.add(fault, behaviour)


def _error_code(error: ErrorCode | str | int) -> ErrorCode:
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise ValueError(f"Kafka has no error {error!r}") from None
