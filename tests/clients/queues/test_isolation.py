"""Groups that get all records, and groups that get none of aborted transactions."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer

from tests.clients.groups.programs.member import Partition
from tests.clients.queues.play import Play, values
from tests.clients.stage import WAIT


class Transactions:
    def __init__(self, address: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": f"producer-{uuid.uuid4()}",
                "log_level": 0,
            }
        )
        self._producer.init_transactions(WAIT)

    def begin(self, partition: Partition, *written: str) -> None:
        self._producer.begin_transaction()
        for each in written:
            self._producer.produce(partition.topic, each, partition=partition.number)
        assert self._producer.flush(WAIT) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT)


def test_what_is_aborted_is_passed_over(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest", share_isolation_level="read_committed")
    transactions = Transactions(play.address)
    expected = []
    for number in range(6):
        transactions.begin(partition, f"{number}a", f"{number}b")
        if number % 3 == 0:
            transactions.commit()
            expected += [f"{number}a", f"{number}b"]
        else:
            transactions.abort()
    play.write(partition, "last")
    member = play.member(partition.topic)
    assert values(member.gather(5)) == [*expected, "last"]
    play.wait_until_left(partition, 0)


def test_what_is_open_waits(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest", share_isolation_level="read_committed")
    transactions = Transactions(play.address)
    play.write(partition, "before")
    transactions.begin(partition, "open")
    play.write(partition, "after")
    member = play.member(partition.topic)
    assert values(member.gather(1)) == ["before"]
    member.poll_nothing()
    transactions.commit()
    assert values(member.gather(2)) == ["open", "after"]


def test_what_is_held_up_by_one_that_is_aborted_comes_after_it(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest", share_isolation_level="read_committed")
    transactions = Transactions(play.address)
    transactions.begin(partition, "open")
    play.write(partition, "after")
    member = play.member(partition.topic)
    member.poll_nothing()
    transactions.abort()
    assert values(member.gather(1)) == ["after"]


def test_a_group_gets_all_unless_it_is_configured(play: Play) -> None:
    (partition,) = play.topic()
    play.configure(share_auto_offset_reset="earliest")
    transactions = Transactions(play.address)
    transactions.begin(partition, "aborted")
    transactions.abort()
    transactions.begin(partition, "open")
    member = play.member(partition.topic)
    assert values(member.gather(2)) == ["aborted", "open"]
    transactions.commit()
    play.write(partition, "last")
    assert values(member.gather(1)) == ["last"]
    play.wait_until_left(partition, 0)
