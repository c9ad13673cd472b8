"""What was told of transactions, held against what is in the logs.

lost           committed, as its client was told, and not all there
aborted read   there, and its client was told that it is aborted, or never asked for a commit
torn           some of it is there, and some is not
duplicate      a record is in a log twice, whoever reads
out of order   a later record of one producer is before an earlier one
from nowhere   nobody sent it
hanging        a transaction is still open when all have ended
offset         the group's is not that of the last commit
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple


class Outcome(Enum):
    """As far as the client was told."""

    COMMITTED = auto()
    ABORTED = auto()
    """It was told so, or nobody has ever asked for a commit."""
    UNKNOWN = auto()
    """It asked for a commit and heard nothing definite."""


@dataclass(eq=False)
class Transaction:
    """What one client did in one transaction."""

    transactional_id: str
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    """Partitions and values, in order, whether acknowledged or not. A client asks for a commit only
    when all of them are."""
    offset: int | None = None
    """Of its group, if it was acknowledged."""
    outcome: Outcome = Outcome.ABORTED


class Log(NamedTuple):
    """What is in a partition at the end."""

    committed: list[bytes]
    """What a reader of committed records sees."""
    everything: list[bytes]
    last_stable_offset: int
    high_watermark: int


class Anomaly(NamedTuple):
    name: str
    what: str


def anomalies(
    transactions: Sequence[Transaction],
    logs: Mapping[int, Log],
    offsets: Mapping[str, int] = {},
) -> list[Anomaly]:
    """All that is wrong. Transactions of one transactional id are in the order of their beginnings,
    and `offsets` are those of its group, -1 for none."""
    return [
        *_of_transactions(transactions, logs),
        *_of_logs(transactions, logs),
        *_of_offsets(transactions, logs, offsets),
    ]


def _of_transactions(
    transactions: Sequence[Transaction], logs: Mapping[int, Log]
) -> Iterator[Anomaly]:
    seen = {(number, value) for number, log in logs.items() for value in log.committed}
    for transaction in transactions:
        there = [each for each in transaction.sent if each in seen]
        if transaction.outcome is Outcome.ABORTED and there:
            yield Anomaly("aborted read", f"{there} of {transaction}")
        if transaction.outcome is Outcome.COMMITTED and len(there) < len(transaction.sent):
            yield Anomaly("lost", f"only {there} of {transaction}")
        if there and len(there) < len(transaction.sent):
            yield Anomaly("torn", f"only {there} of {transaction}")


def _of_logs(transactions: Sequence[Transaction], logs: Mapping[int, Log]) -> Iterator[Anomaly]:
    sent: dict[tuple[int, bytes], tuple[str, int]] = {}
    for transaction in transactions:
        for each in transaction.sent:
            sent[each] = (transaction.transactional_id, len(sent))
    for number, log in logs.items():
        if log.last_stable_offset != log.high_watermark:
            yield Anomaly("hanging", f"{number}: {log.last_stable_offset}, {log.high_watermark}")
        for value, times in Counter(log.everything).items():
            if times > 1:
                yield Anomaly("duplicate", f"{value!r} is {times} times in {number}")
        yield from _out_of_order(number, log, sent)


def _out_of_order(
    number: int, log: Log, sent: Mapping[tuple[int, bytes], tuple[str, int]]
) -> Iterator[Anomaly]:
    last: dict[str, int] = {}
    for value in log.committed:
        if (number, value) not in sent:
            yield Anomaly("from nowhere", f"{value!r} in {number}")
            continue
        whose, place = sent[number, value]
        if place < last.get(whose, -1):
            yield Anomaly("out of order", f"{value!r} in {number}")
        last[whose] = place


def _of_offsets(
    transactions: Sequence[Transaction], logs: Mapping[int, Log], offsets: Mapping[str, int]
) -> Iterator[Anomaly]:
    seen = {(number, value) for number, log in logs.items() for value in log.committed}
    for transactional_id, found in offsets.items():
        possible = {-1}
        for transaction in transactions:
            offset, outcome = transaction.offset, transaction.outcome
            if transaction.transactional_id != transactional_id or offset is None:
                continue
            if outcome is Outcome.UNKNOWN and transaction.sent:
                # Its records know: offsets and records go together.
                is_there = transaction.sent[0] in seen
                outcome = Outcome.COMMITTED if is_there else Outcome.ABORTED
            if outcome is Outcome.COMMITTED:
                possible = {offset}
            elif outcome is Outcome.UNKNOWN:
                possible.add(offset)
        if found not in possible:
            yield Anomaly("offset", f"{found} of {transactional_id}, not {possible}")
