"""How long a request may take, which its client says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from pyk.errors import ErrorCode, KafkaError


@contextmanager
def within(timeout_ms: int) -> Iterator[None]:
    """Raise KafkaError with REQUEST_TIMED_OUT when the time is up: without time, before the block
    has begun. What the block was about to do may be done all the same."""
    if timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    try:
        with trio.fail_after(timeout_ms / 1000):
            yield
    except trio.TooSlowError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT) from None
