"""Writing offset checkpoints, in a thread. One write serves all who wait for it."""

from __future__ import annotations

import trio

from pyk.errors import storage_error
from pyk.log.directory import DataDirectory
from pyk.offload import Elsewhere, in_thread
from pyk.turns import in_turns


class Checkpoints:
    def __init__(self, directory: DataDirectory, offload: Elsewhere = in_thread) -> None:
        self._directory = directory
        self._offload = offload
        self._writing = trio.Lock()
        self._asked = 0
        self._served = 0

    async def write(self) -> None:
        """Return when the checkpoints say what was so when this was called, durably. Raise
        KafkaError with KAFKA_STORAGE_ERROR."""
        self._asked += 1
        asked = self._asked
        async with self._writing:
            if self._served < asked:
                served = self._asked
                try:
                    await self._write()
                except OSError as error:
                    raise storage_error("the checkpoints", error) from error
                self._served = served

    async def _write(self) -> None:
        directory = self._directory
        while (checkpoint := await in_turns(directory.begin_checkpoint())) is not None:
            await self._offload(checkpoint.run)
            if directory.end_checkpoint(checkpoint):
                break
        # The names of drafts were durable, and so must be what took their place.
        await self._offload(directory.sync_names)
        if checkpoint is not None:
            directory.note_durable(checkpoint)
