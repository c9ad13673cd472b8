"""The image of a store, kept up to date by a watch, and transactions that are decided from it.

    range -> image -> watch from the next revision -> image, image ...    Compacted: from the start

Whoever must act on changes waits for the next image and compares it with the last one: changes may
be missed, as after a compaction, but never their outcome.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from pyk.errors import ErrorCode, KafkaError, storage_error
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage
from pyk.metadata.store import Compacted, Store

T = TypeVar("T")

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_mirror(store: Store) -> AsyncIterator[Mirror]:
    mirror = Mirror(store)
    await mirror.read()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.follow)
        yield mirror
        nursery.cancel_scope.cancel()


class Mirror:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = trio.Event()
        self.image = ClusterImage()

    async def reach(self, revision: int) -> ClusterImage:
        """The image, once it is that of this revision or a later one. For the next image ask for
        the revision after this one's."""
        while self.image.revision < revision:
            await self._changed.wait()
        return self.image

    async def carry_out(self, decide: Callable[[ClusterImage], Plan[T] | Awaitable[Plan[T]]]) -> T:
        """Commit what is decided from the image, deciding again while it was not the newest.
        Return when the image shows what was done. Raise KafkaError."""
        while True:
            image = self.image
            decided = decide(image)
            plan = decided if isinstance(decided, Plan) else await decided
            if not plan.operations:
                return plan.outcome
            try:
                commit = await self._store.commit(plan.compares, plan.operations)
            except OSError as error:
                logger.error("the metadata store refuses a change: %s", error)
                raise storage_error(error.filename or "the metadata store", error) from error
            await self.reach(commit.revision)
            if commit.succeeded:
                return plan.outcome
            if image.revision >= commit.revision:
                names = ", ".join(image.unreadable) or "none is known"
                message = (
                    f"the metadata is not what it should be; keys that cannot be read: {names}"
                )
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)

    async def read(self) -> None:
        """Take the image as the store is now."""
        self._show(ClusterImage.load(await self._store.range("")))

    async def follow(self) -> None:
        """Keep the image up to date, until cancelled."""
        while True:
            try:
                async with self._store.watch("", self.image.revision + 1) as watched:
                    async for changes in watched:
                        self._show(self.image.apply(changes))
            except Compacted as compacted:
                logger.info("reading all metadata again: %s", compacted)
                await self.read()

    def _show(self, image: ClusterImage) -> None:
        for key in image.unreadable.keys() - self.image.unreadable.keys():
            logger.warning("the metadata at %s cannot be read: %s", key, image.unreadable[key])
        self.image = image
        self._changed.set()
        self._changed = trio.Event()
