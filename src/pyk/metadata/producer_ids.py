"""Producer ids for this broker, a block at a time from the store: none is ever given out twice."""

from __future__ import annotations

import trio

from pyk.metadata.controller import allocate_producer_ids
from pyk.metadata.mirror import Mirror


class ProducerIdBlocks:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._left = iter(range(0))
        self._turn = trio.Lock()

    def take(self) -> int | None:
        """One that is left of the block, or None if a new block is needed."""
        return next(self._left, None)

    async def take_or_wait(self) -> int:
        """Raise KafkaError."""
        async with self._turn:
            producer_id = self.take()
            if producer_id is None:
                block = await self._mirror.carry_out(allocate_producer_ids)
                self._left = iter(block)
                producer_id = next(self._left)
            return producer_id
