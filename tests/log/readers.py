"""What readers make of the batches that they are given."""

from __future__ import annotations

from collections.abc import Iterable

from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader


def is_aborted(header: BatchHeader, aborted: Iterable[AbortedTransaction]) -> bool:
    """As clients find it: a transaction is aborted from its first offset to its marker."""
    return header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset < each.last_offset
        for each in aborted
    )
