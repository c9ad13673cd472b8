"""What members may say of records, and how they are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from pyk.errors import ErrorCode, KafkaError
from pyk.sharing.delivery import ACQUIRED, Acknowledge, Acknowledgement, Delivery

_TYPES = frozenset(Acknowledge)


def check(acknowledgements: Iterable[Acknowledgement]) -> None:
    """Raise KafkaError for those that make no sense, whatever records there are."""
    reached = 0
    for first, last, types in acknowledgements:
        if first > last or first < reached:
            raise _invalid_request(f"Invalid offsets: {first} to {last}")
        if len(types) != 1 and len(types) != last - first + 1:
            raise _invalid_request(f"Invalid number of acknowledge types: {len(types)}")
        if not _TYPES.issuperset(types):
            raise _invalid_request(f"Invalid acknowledge type: {list(types)}")
        reached = last


def check_window(acknowledgement: Acknowledgement, start: int, end: int) -> None:
    """Raise KafkaError for one that reaches beyond the window."""
    if start == end:
        raise _invalid_state(
            "Batch record not found. The request batch offsets are not found in the cache."
        )
    for name, offset in (
        ("first", acknowledgement.first_offset),
        ("last", acknowledgement.last_offset),
    ):
        if offset >= end:
            raise _invalid_request(
                f"Batch record not found. The {name} offset in request is past acquired records."
            )


def parted(acknowledgement: Acknowledgement, start: int) -> Iterator[tuple[int, int, int]]:
    """The offsets from start on, those together that are said to be the same."""
    first, last, types = acknowledgement
    if len(types) == 1:
        yield max(first, start), last + 1, types[0]
        return
    base = max(first, start)
    for kind, same in groupby(types[base - first :]):
        end = base + sum(1 for _ in same)
        yield base, end, kind
        base = end


def refusal(held: Delivery, member_id: str, *, is_whole: bool) -> KafkaError:
    """Why a member cannot acknowledge something: all that was delivered together, or a part."""
    if held.state is not ACQUIRED:
        name = "batch" if is_whole else "offset"
        rest = "is not in the acquired state" if is_whole else "is not acquired"
        return _invalid_state(f"The {name} cannot be acknowledged. The {name} {rest}.")
    if held.owner != member_id:
        name = "batch record" if is_whole else "offset"
        return _invalid_state(f"Member is not the owner of {name}")
    return _invalid_state(
        "The record state is invalid. The acknowledgement of delivery could not be completed."
    )


def _invalid_state(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
