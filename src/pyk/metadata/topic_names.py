"""What a topic may be called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyk.errors import ErrorCode, KafkaError

NAME_MAX: Final = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Raise KafkaError with INVALID_TOPIC_EXCEPTION."""
    if not name:
        fault = "the empty string is not allowed"
    elif name in (".", ".."):
        fault = f"'{name}' is not allowed"
    elif len(name) > NAME_MAX:
        fault = f"the length of '{name}' is longer than the max allowed length {NAME_MAX}"
    elif not _LEGAL.issuperset(name):
        fault = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def collisions_with(existing: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Topics that are there whose names are one of these but for dots and underscores, by what the
    two have in common. The names of metrics make no difference between those."""
    wanted = {unified(name) for name in names if may_collide(name)}
    if not wanted:
        return {}
    found = [name for name in existing if unified(name) in wanted]
    return {unified(name): name for name in sorted(found, reverse=True)}


def may_collide(name: str) -> bool:
    return "." in name or "_" in name


def unified(name: str) -> str:
    return name.replace(".", "_")
