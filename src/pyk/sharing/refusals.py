"""What members of share groups hear of logs that cannot be read, and of state that is not kept."""

from __future__ import annotations

from typing import Final

from pyk.errors import ErrorCode, KafkaError, storage_error
from pyk.log.segments import CorruptLog
from pyk.wire.compression import CorruptBatch

DAMAGE: Final = (OSError, CorruptBatch, CorruptLog)

_AWAY: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_KNOWN: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
OVER: Final = _FENCED | _KNOWN | {ErrorCode.INVALID_REQUEST}
"""What is known here is not what is kept any more. The last is for what is not kept at all."""


def as_refusal(name: str, failure: Exception) -> KafkaError:
    """What the members hear."""
    if isinstance(failure, KafkaError):
        return failure
    if isinstance(failure, OSError):
        return storage_error(name, failure)
    if isinstance(failure, DAMAGE):
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{name}: {failure}")
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name}: the share group failed here")


def as_heard(refusal: KafkaError) -> KafkaError:
    """What is said to a member when the state of its share cannot be read or written."""
    if refusal.code in _AWAY:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refusal.message)
    if refusal.code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, refusal.message)
    if refusal.code in _KNOWN:
        return refusal
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, refusal.message)
