"""Java's producer, which speaks the second version of transactions, in a hostile network.

It waits shortly for answers, closes the connection, and asks again on another. What it asked first
is delivered when its next transaction is under way, or a successor's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import trio

from compat_tests.clients.java_producer import JavaProducer
from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from tests.adversary.attacked import Attacked

IMPATIENT = {
    "request.timeout.ms": "500",
    "delivery.timeout.ms": "2000",
    "max.block.ms": "5000",
    "linger.ms": "0",
    "reconnect.backoff.ms": "10",
    "retry.backoff.ms": "10",
    "enable.metrics.push": "false",
}
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
MANY = 100
EACH_OUTCOME = pytest.mark.parametrize("outcome", ["commit", "abort"])


class Attackable:
    """A producer that is told from a test in trio what to do."""

    def __init__(self, address: str, transactional_id: str, client_id: str) -> None:
        self.client_id = client_id
        settings = {**IMPATIENT, "client.id": client_id}
        self._java = JavaProducer(address, transactional_id, settings)

    async def do(self, line: str) -> str:
        return await trio.to_thread.run_sync(self._java.do, line)

    async def all_ok(self, *lines: str) -> None:
        for line in lines:
            assert await self.do(line) == "ok", line

    def close(self) -> None:
        self._java.close()


Begin = Callable[[], Attackable]


@pytest.fixture
def begin(attacked: Attacked) -> Iterator[Begin]:
    producers: list[Attackable] = []

    def begin() -> Attackable:
        address, name = attacked.adversary.address, f"java of {attacked.topic}"
        producers.append(Attackable(address, name, f"{name}, {len(producers)}"))
        return producers[-1]

    yield begin
    for producer in producers:
        producer.close()


@EACH_OUTCOME
async def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    attacked: Attacked, begin: Begin, outcome: str
) -> None:
    topic, other = attacked.topic, "abort" if outcome == "commit" else "commit"
    producer = begin()
    await producer.all_ok("init", "begin", f"send {topic} 0 first")
    trap = attacked.adversary.trap(ApiKey.END_TXN)
    await producer.all_ok(outcome, "begin", f"send {topic} 0 second", f"send {topic} 1 second")
    late = await trap.caught()
    assert (await late.deliver()).error_code in FENCED
    await producer.all_ok(f"send {topic} 2 second", other)
    assert await attacked.values(0) == ["first" if outcome == "commit" else "second"]
    for partition in (1, 2):
        assert await attacked.values(partition) == ([] if other == "abort" else ["second"])


@EACH_OUTCOME
async def test_an_end_that_comes_late_does_not_end_the_transaction_of_a_successor(
    attacked: Attacked, begin: Begin, outcome: str
) -> None:
    topic = attacked.topic
    zombie = begin()
    await zombie.all_ok("init", "begin", f"send {topic} 0 first")
    # It goes on asking behind the back of its caller, who has given up.
    trap = attacked.adversary.trap(ApiKey.END_TXN, client_id=zombie.client_id, times=MANY)
    assert await zombie.do(outcome) == "TimeoutException"
    successor = begin()
    await successor.all_ok("init", "begin", f"send {topic} 0 second")
    assert (await (await trap.caught()).deliver()).error_code in FENCED
    await successor.all_ok(f"send {topic} 1 second", "commit")
    assert [await attacked.values(n) for n in (0, 1)] == [["second"], ["second"]]


async def test_a_write_that_is_sent_again_is_there_once_though_the_first_comes_later(
    attacked: Attacked, begin: Begin
) -> None:
    topic = attacked.topic
    producer = begin()
    await producer.all_ok("init", "begin")
    trap = attacked.adversary.trap(ApiKey.PRODUCE)
    await producer.all_ok(f"send {topic} 0 once", "commit", "begin", f"send {topic} 0 next")
    [answer] = (await (await trap.caught()).deliver()).responses
    assert answer.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await producer.all_ok("commit")
    assert await attacked.values() == ["once", "next"]
    assert (await attacked.log()).everything == [b"once", b"next"]


async def test_a_write_that_was_given_up_does_not_come_in_the_next_transaction(
    attacked: Attacked, begin: Begin
) -> None:
    topic = attacked.topic
    producer = begin()
    await producer.all_ok("init", "begin")
    trap = attacked.adversary.trap(ApiKey.PRODUCE, times=MANY)
    assert await producer.do(f"send {topic} 0 late") == "TimeoutException"
    trap.disarm()
    await producer.all_ok("abort", "begin", f"send {topic} 0 second")
    [answer] = (await (await trap.caught()).deliver()).responses
    assert answer.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await producer.all_ok("commit")
    assert (await attacked.log()).everything == [b"second"]


async def test_offsets_that_come_late_do_not_count_in_the_next_transaction(
    attacked: Attacked, begin: Begin
) -> None:
    topic, group_id = attacked.topic, f"group-{attacked.topic}"
    producer = begin()
    await producer.all_ok("init", "begin", f"send {topic} 0 first")
    trap = attacked.adversary.trap(ApiKey.TXN_OFFSET_COMMIT)
    await producer.all_ok(f"offset {group_id} {topic} 0 1", "commit", "begin")
    await producer.all_ok(f"offset {group_id} {topic} 0 2", f"send {topic} 0 second")
    [answer] = (await (await trap.caught()).deliver()).topics
    assert answer.partitions[0].error_code in FENCED
    await producer.all_ok("commit")
    assert await attacked.offset(group_id) == 2
    assert await attacked.values() == ["first", "second"]


async def test_a_producer_that_begins_late_fences_and_its_victim_is_told(
    attacked: Attacked, begin: Begin
) -> None:
    topic = attacked.topic
    producer = begin()
    trap = attacked.adversary.trap(ApiKey.INIT_PRODUCER_ID)
    await producer.all_ok("init", "begin", f"send {topic} 0 lost", f"send {topic} 1 lost")
    late = await trap.caught()
    assert (await late.deliver()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await producer.do("commit") != "ok"
    assert [await attacked.values(n) for n in (0, 1)] == [[], []]
