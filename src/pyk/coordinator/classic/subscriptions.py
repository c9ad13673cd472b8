"""What consumers subscribe to, as far as a broker looks into what they tell their leader."""

from __future__ import annotations

from collections.abc import Iterable

from pyk.errors import ProtocolError
from pyk.wire.codec import decode
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription

VERSION_BYTES = 2
FIRST = 0
"""Every version of a subscription begins as the first one does."""


def topics_in(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Those of all of them together, or None if one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            read = decode(ConsumerProtocolSubscription, FIRST, subscription[VERSION_BYTES:])
            topics.update(read.topics)
    except ProtocolError:
        return None
    return frozenset(topics)
