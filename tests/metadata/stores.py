"""The stores that must keep the promises of `pyk.metadata.store`, and what their tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import pytest

import pyk.metadata.embedded
import pyk.metadata.state
from pyk.metadata.embedded import open_embedded
from pyk.metadata.store import Changes, Store
from pyk.offload import at_once
from tests.simulated_disk import ROOT, SimulatedDisk

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

Open: TypeAlias = "Callable[[], AbstractAsyncContextManager[Store]]"
"""A new and empty store, for as long as the block."""

DIRECTORY = ROOT / "metadata"


@asynccontextmanager
async def embedded() -> AsyncIterator[Store]:
    async with open_embedded(SimulatedDisk(), DIRECTORY, at_once) as store:
        yield store


@asynccontextmanager
async def embedded_rewritten() -> AsyncIterator[Store]:
    """One that writes its file anew after nearly every transaction."""
    disk = SimulatedDisk()
    async with open_embedded(disk, DIRECTORY, at_once, appended_bytes_min=1) as store:
        yield store


@asynccontextmanager
async def embedded_for_many() -> AsyncIterator[Store]:
    """One that takes each transaction for one of very many operations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyk.metadata.embedded, "WRITTEN_AT_ONCE", 1)
        patch.setattr(pyk.metadata.state, "FORGOTTEN_ONE_BY_ONE_MAX", 0)
        async with embedded() as store:
            yield store


STORES: dict[str, Open] = {
    "embedded": embedded,
    "embedded_rewritten": embedded_rewritten,
    "embedded_for_many": embedded_for_many,
}


async def seen(store: Store, prefix: str, revision: int, count: int) -> list[Changes]:
    """The first changes that a watch gives."""
    found: list[Changes] = []
    async with store.watch(prefix, revision) as changes:
        while len(found) < count:
            found.append(await anext(changes))
    return found
