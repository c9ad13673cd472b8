"""What the headers of a dead letter say (KIP-1191): where its record was, and why it is not there.

The headers come after those that the record had.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyk.wire.records import Headers

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
_OURS: Final = frozenset((TOPIC, PARTITION, OFFSET, GROUP, DELIVERY_COUNT, MESSAGE))


class Origin(NamedTuple):
    """Where a dead letter is from, and whose it was."""

    group_id: str
    topic: str
    partition: int


def read_origin(headers: Headers) -> Origin | None:
    """None if the record is no dead letter."""
    # The last of a name counts: the broker's come after those of the record.
    found = dict(headers)
    group_id, topic, partition = (found.get(name) for name in (GROUP, TOPIC, PARTITION))
    if not group_id or not topic or not partition:
        return None
    try:
        origin = Origin(group_id.decode(), topic.decode(), int(partition))
    except ValueError:
        return None
    return origin if origin.partition >= 0 else None


def without_context(headers: Headers) -> Headers:
    """Those that the record had before it was a letter."""
    return tuple(header for header in headers if header[0] not in _OURS)
