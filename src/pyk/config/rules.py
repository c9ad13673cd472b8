"""What a value must fulfil beyond its type. A rule returns the reason for refusing, or None."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from pyk.config.values import Value

Rule: TypeAlias = Callable[[Value], str | None]

CODEC_MAX: Final = 4
"""Codecs have numbers from 0, which is none, to 4, which is zstd."""
_THROTTLED_REPLICA: Final = r"[0-9]+:[0-9]+"


def at_least(lowest: float) -> Rule:
    def check(value: Value) -> str | None:
        too_low = isinstance(value, int | float) and value < lowest
        return f"it must be at least {lowest}" if too_low else None

    return check


def between(lowest: float, highest: float, or_else: int | None = None) -> Rule:
    """Both ends are allowed, and so is the one value `or_else` that is far from them."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        # Not a number compares to nothing, and Kafka lets it pass.
        if value == or_else or not (value < lowest or value > highest):
            return None
        also = "" if or_else is None else f", or {or_else}"
        return f"it must be from {lowest} to {highest}{also}"

    return check


def one_of(*names: str) -> Rule:
    def check(value: Value) -> str | None:
        return None if value in names else f"it must be one of {', '.join(names)}"

    return check


def one_of_any_case(*names: str) -> Rule:
    def check(value: Value) -> str | None:
        known = isinstance(value, str) and value.lower() in names
        return None if known else f"it must be one of {', '.join(names)}, in any case"

    return check


def each_of(*names: str) -> Rule:
    """For lists, which may be empty."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        strange = next((item for item in value if item not in names), None)
        return None if strange is None else f"{strange} is not one of {', '.join(names)}"

    return check


def not_empty(value: Value) -> str | None:
    """For lists that make no sense without an item."""
    return None if value else "the list must not be empty"


def all_of(*rules: Rule) -> Rule:
    def check(value: Value) -> str | None:
        return next((reason for rule in rules if (reason := rule(value))), None)

    return check


def throttled_replicas(value: Value) -> str | None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(re.fullmatch(_THROTTLED_REPLICA, item) for item in value):
        return None
    return "it must be * alone, or a list of partition:broker"
