"""The life of one client with a transactional id, by chance, as careful clients behave.

    begin -> a transaction: writes, perhaps offsets -> commit or abort -> the next ...

- What is not answered is sent again as it was, or given up: then the transaction is aborted.
- A commit is asked for when everything was acknowledged. It is asked for again until there is an
  answer, or the client crashes, and nobody knows.
- Some are too slow for their time, and the broker aborts their transaction.
- Who is fenced is over, or goes on with the next epoch if it is given one (KIP-588).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from pyk.errors import ErrorCode
from tests.adversary.oracle import Outcome, Transaction
from tests.adversary.producer import V1, Producer
from tests.adversary.proxy import Caught, Way

if TYPE_CHECKING:
    from random import Random

WAYS: Final = (Way.PROMPT, Way.HELD, Way.UNANSWERED)
ODDS: Final = (70, 20, 10)
TRIES: Final = 4
CRASHES: Final = 0.08
GIVES_UP: Final = 0.25
ENDS: Final = 0.3
COMMITS: Final = 0.65
COMMITS_OFFSETS: Final = 0.15
TIMES_OUT: Final = 0.2
"""How many have so little time for a transaction that the broker may abort it."""
TIMEOUT_MS: Final = 60_000
SHORT_TIMEOUT_MS: Final = 50


class Life:
    def __init__(
        self,
        producer: Producer,
        partitions: int,
        transactions: list[Transaction],
        rng: Random,
    ) -> None:
        self._producer, self._partitions, self._rng = producer, partitions, rng
        self._transactions = transactions
        """Of all lives with this id."""
        self._current: Transaction | None = None
        self._is_whole = True
        """Whether everything of the transaction was acknowledged."""
        self._has_asked_for_commit = False
        self.is_over = False
        self.is_given_up = False
        """Others believe that it is dead, and replace it. It may go on."""

    @property
    def transactional_id(self) -> str:
        return self._producer.transactional_id

    def take_caught(self) -> list[Caught]:
        taken, self._producer.asker.caught = self._producer.caught, []
        return taken

    async def begin(self) -> None:
        timeout_ms = SHORT_TIMEOUT_MS if self._rng.random() < TIMES_OUT else TIMEOUT_MS
        code = await self._insisting(lambda way: self._producer.init(way, timeout_ms=timeout_ms))
        self.is_over = code != ErrorCode.NONE

    async def step(self) -> None:
        if self._rng.random() < CRASHES:
            self.is_given_up = True
            return
        if self._has_asked_for_commit:
            await self._end(is_commit=True)
        elif not self._is_whole:
            await self._end(is_commit=False)
        elif self._current is not None and self._rng.random() < ENDS:
            await self._end(is_commit=self._rng.random() < COMMITS)
        elif self._rng.random() < COMMITS_OFFSETS:
            await self._commit_offset()
        else:
            await self._write()

    def _transaction(self) -> Transaction:
        if self._current is None:
            self._current = Transaction(self.transactional_id)
            self._transactions.append(self._current)
        return self._current

    async def _write(self) -> None:
        transaction = self._transaction()
        partition = self._rng.randrange(self._partitions)
        value = (
            f"{self._transactions.index(transaction)}/{len(transaction.sent)}"
            f" of {self.transactional_id}"
        )
        batch = self._producer.batch(value, partition)
        transaction.sent.append((partition, value.encode()))
        code = await self._trying(lambda way: self._producer.send(batch, way))
        self._is_whole = code == ErrorCode.NONE

    async def _commit_offset(self) -> None:
        transaction = self._transaction()
        offset = 1 + self._transactions.index(transaction)
        group_id = self.transactional_id
        code = await self._trying(lambda way: self._producer.commit_offset(group_id, offset, way))
        self._is_whole = code == ErrorCode.NONE
        if self._is_whole:
            transaction.offset = offset

    async def _end(self, *, is_commit: bool) -> None:
        transaction = self._transaction()
        if is_commit:
            self._has_asked_for_commit = True
            transaction.outcome = Outcome.UNKNOWN
        code = await self._trying(lambda way: self._producer.end(commit=is_commit, way=way))
        if code is None:
            return
        if code == ErrorCode.NONE:
            if is_commit:
                transaction.outcome = Outcome.COMMITTED
            await self._renew()
            self._forget()
        else:
            await self._recover()

    async def _renew(self) -> None:
        """In v1 an abort leaves gaps in the sequences of batches, which only an epoch closes."""
        if self._producer.version == V1 and not self._is_whole:
            code = await self._insisting(lambda way: self._producer.init(way, goes_on=True))
            self.is_over = code != ErrorCode.NONE

    async def _recover(self) -> None:
        """It was refused: its transaction is not its own any more."""
        code = await self._insisting(lambda way: self._producer.init(way, goes_on=True))
        self.is_over = code != ErrorCode.NONE
        self._forget()

    def _forget(self) -> None:
        self._current, self._is_whole, self._has_asked_for_commit = None, True, False

    async def _trying(self, ask: Callable[[Way], Awaitable[int | None]]) -> int | None:
        """The error, or None if it gave up."""
        for _ in range(TRIES):
            [way] = self._rng.choices(WAYS, ODDS)
            code = await ask(way)
            if code is not None or self._rng.random() < GIVES_UP:
                return code
        return None

    async def _insisting(self, ask: Callable[[Way], Awaitable[int | None]]) -> int | None:
        code = await self._trying(ask)
        return await ask(Way.PROMPT) if code is None else code
