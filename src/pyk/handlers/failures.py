"""What fails and is no refusal: a damaged log, a disk, a bug. It is told in the log, counted, and
goes no further than it must.

    a partition of a request -> an error code for that partition, and the others are answered
    a task of the broker     -> that task ends, or begins again, and the others go on

What is no `Exception`, as `SyncFailed`, goes up and ends the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.log.checkpoints import DamagedCheckpoint
from pyk.log.index import DamagedIndex
from pyk.log.segments import CorruptLog
from pyk.sparing import Sparing

PAUSE_MIN: Final = 0.1
PAUSE_MAX: Final = 10.0

Run: TypeAlias = Callable[[], Awaitable[None]]

logger = logging.getLogger(__name__)


class Failures:
    def __init__(self) -> None:
        self.count = 0
        self.tell_of_bug: Callable[[Exception], None] = lambda _: None
        """For a test, which fails over a bug."""
        self._lines = Sparing()

    def note(self, what: str, failure: Exception) -> None:
        self.count += 1
        more = self._lines.next_line()
        if more is not None:
            logger.error("%s has failed%s", what, more, exc_info=failure)

    def refusal(self, failure: Exception, what: str) -> KafkaError:
        """What the client hears of a partition. Bytes that cannot be read there are the log's, not
        the client's, also where they raise what else ends a connection."""
        match failure:
            case KafkaError():
                return failure
            case ProtocolError():
                refusal = KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{what} is damaged: {failure}")
            case OSError() | CorruptLog() | DamagedIndex() | DamagedCheckpoint():
                refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {failure}")
            case _:
                refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                self.tell_of_bug(failure)
        self.note(what, failure)
        return refusal


class Tasks:
    """What runs for as long as the broker does, each for itself."""

    def __init__(self, nursery: trio.Nursery, failures: Failures) -> None:
        self._nursery = nursery
        self._failures = failures

    def start_soon(self, run: Run) -> None:
        """Run something to its end. If it fails, that is its end."""
        self._nursery.start_soon(self._contain, run, name=run)

    def keep_running(self, run: Run) -> None:
        """Run what has no end. If it fails it begins again after a pause."""
        self._nursery.start_soon(self._repeat, run, name=run)

    async def _contain(self, run: Run) -> bool:
        """Whether it went well."""
        try:
            await run()
        except Exception as failure:
            self._failures.note(f"the broker goes on, but {run}", failure)
            self._failures.tell_of_bug(failure)
            return False
        return True

    async def _repeat(self, run: Run) -> None:
        pause = PAUSE_MIN
        while True:
            began = trio.current_time()
            if await self._contain(run):
                return
            if trio.current_time() - began > PAUSE_MAX:
                pause = PAUSE_MIN
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)
