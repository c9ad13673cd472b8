"""The broker's loggers as a resource: Kafka's levels over Python's, until it stops (KIP-412).

A logger without a level of its own has that of the nearest one above it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from pyk.config.changes import Change, Operation
from pyk.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def described() -> dict[str, str]:
    """The levels by the names of the loggers."""
    return {name: _level_name(logging.getLogger(name)) for name in _names()}


def decide(changes: Iterable[Change]) -> dict[str, int]:
    """The new levels, of Python, by the names of the loggers. Raise KafkaError."""
    levels: dict[str, int] = {}
    for name, operation, value in changes:
        if name in levels:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is there twice.")
        levels[name] = _decide(name, operation, value)
    return levels


def apply(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _decide(name: str, operation: int, value: str | None) -> int:
    if operation not in (Operation.SET, Operation.DELETE):
        message = f"Loggers have no operation {operation}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if operation == Operation.SET and value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value.")
    if name not in _names():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"There is no logger {name}.")
    if operation == Operation.DELETE:
        if name == ROOT:
            message = "The root logger must have a level."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return logging.NOTSET
    level = LEVELS.get(value or "")
    if level is None:
        message = f"{name} cannot have the level {value}, which is none of {', '.join(LEVELS)}."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return level


def _names() -> list[str]:
    found = logging.Logger.manager.loggerDict.items()
    return [ROOT, *(name for name, logger in found if isinstance(logger, logging.Logger))]


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    fitting = [name for name, number in LEVELS.items() if number <= level]
    return fitting[-1] if fitting else "TRACE"
