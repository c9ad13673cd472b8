"""Clients that something is tried with, each as a program of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pytest

Ability = TypeVar("Ability", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKind(Generic[Ability]):
    name: str
    program: Callable[[], tuple[str, ...]] = field(repr=False)
    """The command that starts it. To find it may take long: it may have to be built."""
    abilities: frozenset[Ability] = field(repr=False)

    def can(self, ability: Ability) -> bool:
        return ability in self.abilities

    def needs_to(self, ability: Ability) -> None:
        if not self.can(ability):
            pytest.skip(f"{self.name} has no way to {ability}")
