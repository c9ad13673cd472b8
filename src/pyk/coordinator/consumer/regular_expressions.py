"""Subscriptions by regular expression, in the language of RE2, which Kafka has from re2j.

Python's own `re` would not do: it speaks another language, and a client could send it a pattern
that takes longer than the universe lasts. RE2 takes time in proportion to what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyk.declared import NamedTuple
from pyk.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import re2

MEMORY_BYTES_MAX = 1 << 20
"""What one expression may need. RE2's own limit is eight times as much."""


class Matches(NamedTuple):
    """The topics that matched an expression when it was last tried."""

    topics: frozenset[str]
    version: int
    """The revision of the image that had these topics."""
    timestamp: int
    """In milliseconds."""


class NoExpression(ValueError):
    """What RE2 says is wrong with it."""


def check(regex: str) -> None:
    """Raise KafkaError if it is none."""
    try:
        _compiled(regex)
    except NoExpression as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Those of the topics whose whole names match. An expression that is none matches nothing: it
    may be in the log of another broker."""
    try:
        compiled = _compiled(regex)
    except NoExpression:
        return frozenset()
    return frozenset(name for name in topics if compiled.fullmatch(name))


def _compiled(regex: str) -> re2._Regexp:
    # Imported by who needs it: most brokers never do, and start sooner.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        return re2.compile(regex, options=options)
    except re2.error as error:
        reason: bytes = error.args[0]
        raise NoExpression(reason.decode(errors="replace")) from error
