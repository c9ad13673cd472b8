"""Requests of transactions that the network delivers too late, one attack after the other.

With the second version of transactions (KIP-890) nothing comes of any of them. The first version
has a hole (KAFKA-17754), which is shown to be there: it also shows that attacks and oracle work.
"""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from tests.adversary.attacked import Attacked, deliver, end, write, write_more
from tests.adversary.oracle import Outcome, Transaction
from tests.adversary.producer import V1, V2
from tests.adversary.proxy import Way

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
BOTH_VERSIONS = pytest.mark.parametrize("version", [V1, V2])
EACH_OUTCOME = pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])


@EACH_OUTCOME
async def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    attacked: Attacked, is_commit: bool
) -> None:
    producer = await attacked.producer()
    first = await write(producer, "first")
    assert await producer.end(commit=is_commit, way=Way.HELD) is None
    await end(producer, first, commit=is_commit)
    second = await write(producer, "second")
    assert await deliver(producer.caught[0]) in FENCED
    await write_more(producer, second, "more", partition=1)
    await end(producer, second, commit=not is_commit)
    assert await attacked.anomalies([first, second]) == []


@EACH_OUTCOME
async def test_the_hole_of_the_first_version_is_there_and_the_oracle_sees_it(
    attacked: Attacked, is_commit: bool
) -> None:
    """The same attack. What was written so far is ended behind the back of the client, who goes on
    and is told the other outcome for the rest."""
    producer = await attacked.producer(version=V1)
    first = await write(producer, "first")
    assert await producer.end(commit=is_commit, way=Way.HELD) is None
    await end(producer, first, commit=is_commit)
    second = await write(producer, "second")
    assert await deliver(producer.caught[0]) == ErrorCode.NONE
    await write_more(producer, second, "more", partition=1)
    await end(producer, second, commit=not is_commit)
    names = {each.name for each in await attacked.anomalies([first, second])}
    assert names == ({"aborted read", "torn"} if is_commit else {"lost", "torn"})


@BOTH_VERSIONS
@EACH_OUTCOME
async def test_an_end_that_comes_late_does_not_end_the_transaction_of_a_successor(
    attacked: Attacked, version: int, is_commit: bool
) -> None:
    zombie = await attacked.producer(version=version)
    first = await write(zombie, "first")
    assert await zombie.end(commit=is_commit, way=Way.HELD) is None
    successor = await attacked.producer(version=version)
    second = await write(successor, "second")
    assert await deliver(zombie.caught[0]) in FENCED
    await write_more(successor, second, "more", partition=1)
    await end(successor, second, commit=not is_commit)
    first.outcome = Outcome.UNKNOWN if is_commit else Outcome.ABORTED
    assert await attacked.anomalies([first, second]) == []
    assert "first" not in await attacked.values(), "the successor has ended it"


@EACH_OUTCOME
async def test_an_end_whose_answer_is_lost_is_answered_again(
    attacked: Attacked, is_commit: bool
) -> None:
    producer = await attacked.producer()
    epoch = producer.epoch
    first = await write(producer, "first")
    assert await producer.end(commit=is_commit, way=Way.UNANSWERED) is None
    await end(producer, first, commit=is_commit)
    assert producer.epoch == epoch + 1
    second = await write(producer, "second")
    await end(producer, second, commit=True)
    assert await attacked.anomalies([first, second]) == []


@BOTH_VERSIONS
async def test_a_write_whose_answer_is_lost_is_there_once(attacked: Attacked, version: int) -> None:
    producer = await attacked.producer(version=version)
    if version == V1:
        assert await producer.add(0) == ErrorCode.NONE
    batch = producer.batch("once")
    assert await producer.send(batch, Way.UNANSWERED) is None
    assert await producer.send(batch) == ErrorCode.NONE
    await end(producer, Transaction(""), commit=True)
    assert await attacked.values() == ["once"]


async def test_a_write_that_comes_late_is_not_in_the_next_transaction(attacked: Attacked) -> None:
    producer = await attacked.producer()
    first = await write(producer, "first")
    late = producer.batch("late")
    assert await producer.send(late, Way.HELD) is None
    await end(producer, first, commit=False)
    second = await write(producer, "second")
    [topic] = (await producer.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await write_more(producer, second, "more")
    await end(producer, second, commit=True)
    assert await attacked.anomalies([first, second]) == []
    assert b"late" not in (await attacked.log()).everything


async def test_a_write_that_comes_late_is_not_in_the_next_transaction_of_another_partition(
    attacked: Attacked,
) -> None:
    """The partition does not know the new epoch: the coordinator does."""
    producer = await attacked.producer()
    first = await write(producer, "first")
    assert await producer.send(producer.batch("late", 1), Way.HELD) is None
    await end(producer, first, commit=False)
    second = await write(producer, "second", partition=2)
    [topic] = (await producer.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await end(producer, second, commit=True)
    assert await attacked.anomalies([first, second]) == []
    assert (await attacked.log(1)).everything == []


async def test_the_hole_of_the_first_version_lets_a_late_write_into_the_next_transaction(
    attacked: Attacked,
) -> None:
    """The client gave up on a batch and aborted, and the next transaction has that partition."""
    producer = await attacked.producer(version=V1)
    assert await producer.add(0) == ErrorCode.NONE
    assert await producer.send(producer.batch("late"), Way.HELD) is None
    first = Transaction(producer.transactional_id, [(0, b"late")])
    await end(producer, first, commit=False)
    assert await producer.add(0) == ErrorCode.NONE
    [topic] = (await producer.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE
    second = await write(producer, "second")
    await end(producer, second, commit=True)
    names = {each.name for each in await attacked.anomalies([first, second])}
    assert names == {"aborted read"}


@BOTH_VERSIONS
async def test_a_write_that_comes_after_the_end_begins_nothing_that_hangs(
    attacked: Attacked, version: int
) -> None:
    producer = await attacked.producer(version=version)
    first = await write(producer, "first")
    assert await producer.send(producer.batch("late"), Way.HELD) is None
    await end(producer, first, commit=False)
    assert await attacked.values() == [], "before its marker it would be of the same transaction"
    [topic] = (await producer.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code != ErrorCode.NONE
    log = await attacked.log()
    assert log.last_stable_offset == log.high_watermark
    assert log.everything == [b"first"]


@BOTH_VERSIONS
async def test_a_write_that_comes_late_is_not_in_the_transaction_of_a_successor(
    attacked: Attacked, version: int
) -> None:
    zombie = await attacked.producer(version=version)
    first = await write(zombie, "first")
    assert await zombie.send(zombie.batch("late"), Way.HELD) is None
    successor = await attacked.producer(version=version)
    second = await write(successor, "second")
    [topic] = (await zombie.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await end(successor, second, commit=True)
    assert await attacked.anomalies([first, second]) == []
    assert b"late" not in (await attacked.log()).everything


async def test_a_write_that_comes_late_again_is_there_once(attacked: Attacked) -> None:
    """The client has sent it again, and has committed it."""
    producer = await attacked.producer()
    batch = producer.batch("once")
    assert await producer.send(batch, Way.HELD) is None
    assert await producer.send(batch) == ErrorCode.NONE
    await end(producer, Transaction(""), commit=True)
    await write(producer, "next")
    [topic] = (await producer.caught[0].deliver()).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    await end(producer, Transaction(""), commit=True)
    assert (await attacked.log()).everything == [b"once", b"next"]


@pytest.mark.parametrize("is_by_successor", [False, True], ids=["its own", "a successor's"])
async def test_offsets_that_come_late_do_not_count_in_the_next_transaction(
    attacked: Attacked, is_by_successor: bool
) -> None:
    producer = await attacked.producer()
    group_id = producer.transactional_id
    first = await write(producer, "first")
    assert await producer.commit_offset(group_id, 100, Way.HELD) is None
    if is_by_successor:
        successor = await attacked.producer()
    else:
        successor = producer
        await end(producer, first, commit=False)
    second = await write(successor, "second")
    assert await successor.commit_offset(group_id, 1) == ErrorCode.NONE
    second.offset = 1
    [topic] = (await producer.caught[0].deliver()).topics
    assert topic.partitions[0].error_code in FENCED
    await end(successor, second, commit=True)
    assert await attacked.anomalies([first, second], [group_id]) == []


async def test_a_partition_that_is_added_late_begins_no_transaction(attacked: Attacked) -> None:
    producer = await attacked.producer()
    first = await write(producer, "first")
    assert await producer.add(1, Way.HELD) is None
    await end(producer, first, commit=True)
    assert await attacked.values() == ["first"]
    answer = await producer.caught[0].deliver()
    [topic] = answer.results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code in FENCED
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE, "nothing has begun"
    assert await attacked.anomalies([first]) == []


@BOTH_VERSIONS
async def test_a_producer_that_begins_late_fences_and_its_victim_is_told(
    attacked: Attacked, version: int
) -> None:
    """That is what it asks for: nobody can tell it from a successor. Nothing is torn by it."""
    early = attacked.new_producer(version=version)
    assert await early.init(Way.HELD) is None
    assert await early.init() == ErrorCode.NONE
    transaction = await write(early, "first")
    await write_more(early, transaction, "second", partition=1)
    assert await deliver(early.caught[0]) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await early.end(commit=True) in (*FENCED, ErrorCode.INVALID_TXN_STATE)
    assert await attacked.anomalies([transaction]) == []
    assert await attacked.values() == []
