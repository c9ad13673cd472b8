"""One topic behind an adversary: producers of it, and what is in it at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.adversary.found import committed_offset, read_log, read_logs
from tests.adversary.oracle import Anomaly, Log, Outcome, Transaction, anomalies
from tests.adversary.producer import V2, Asker, Producer
from tests.adversary.proxy import Adversary, Caught
from tests.clients.raw import RawClient

READY_SECONDS: Final = 90.0


class Attacked:
    def __init__(self, adversary: Adversary, topic: str, partitions: int) -> None:
        self.adversary, self.topic, self.partitions = adversary, topic, partitions
        self.reader = Asker(adversary)
        self._askers = [self.reader]

    async def close(self) -> None:
        for asker in self._askers:
            await asker.hang_up()

    def new_producer(self, name: str = "writer", version: int = V2) -> Producer:
        """Its transactional id is nobody's in other topics."""
        producer = Producer(self.adversary, f"{name} of {self.topic}", self.topic, version)
        self._askers.append(producer.asker)
        return producer

    async def producer(self, name: str = "writer", version: int = V2) -> Producer:
        """One that has an epoch."""
        producer = self.new_producer(name, version)
        assert await producer.init() == ErrorCode.NONE
        return producer

    async def log(self, partition: int = 0) -> Log:
        return await read_log(self.reader, self.topic, partition)

    async def values(self, partition: int = 0) -> list[str]:
        """What a reader of committed records sees when nothing is open any more."""
        log = await self.log(partition)
        assert log.last_stable_offset == log.high_watermark, "a transaction hangs"
        return [value.decode() for value in log.committed]

    async def offset(self, group_id: str) -> int:
        return await committed_offset(self.reader, group_id, self.topic)

    async def anomalies(
        self, transactions: Sequence[Transaction], groups: Sequence[str] = ()
    ) -> list[Anomaly]:
        """What the oracle says. A group is named as the transactional id that commits for it."""
        logs = await read_logs(self.reader, self.topic, self.partitions)
        offsets = {group_id: await self.offset(group_id) for group_id in groups}
        return anomalies(transactions, logs, offsets)


async def write(producer: Producer, *values: str, partition: int = 0) -> Transaction:
    """Begin a transaction, or go on, as its client sees it."""
    transaction = Transaction(producer.transactional_id)
    await write_more(producer, transaction, *values, partition=partition)
    return transaction


async def write_more(
    producer: Producer, transaction: Transaction, *values: str, partition: int = 0
) -> None:
    for value in values:
        assert await producer.send(producer.batch(value, partition)) == ErrorCode.NONE
        transaction.sent.append((partition, value.encode()))


async def end(producer: Producer, transaction: Transaction, *, commit: bool) -> None:
    assert await producer.end(commit=commit) == ErrorCode.NONE
    transaction.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED


async def deliver(caught: Caught) -> int:
    """What the broker says to an EndTxn or InitProducerId that comes late."""
    return int((await caught.deliver()).error_code)


def make_ready(address: str) -> None:
    """Have coordinators, which are made when somebody looks for them."""
    deadline = time.monotonic() + READY_SECONDS
    with RawClient(address) as raw:
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key="any", key_type=key_type)
            while raw.ask(ApiKey.FIND_COORDINATOR, 3, request).error_code:
                assert time.monotonic() < deadline, "no coordinator"
