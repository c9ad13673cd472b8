"""A transaction that takes longer than its producer has said."""

from __future__ import annotations

from tests.clients.groups.programs.member import Partition
from tests.clients.transactions.play import SHORT_MS, Play, Producer


def overdue(play: Play, partition: Partition) -> Producer:
    """The producer of a transaction that was aborted since, and does not know of it."""
    slow = play.producer(timeout_ms=SHORT_MS)
    slow.begin()
    slow.send(partition, "lost")
    play.wait_until(lambda: slow.described().state == "CompleteAbort", f"{slow} takes too long")
    return slow


def test_what_takes_too_long_is_aborted_and_its_commit_refused(play: Play) -> None:
    (partition,) = play.topic()
    reader = play.reader([partition])
    slow = overdue(play, partition)
    assert slow.attempt("commit") is not None
    play.write(partition, "after")
    reader.wait_for(partition, "after")


def test_what_is_written_too_late_is_refused(play: Play) -> None:
    (partition,) = play.topic()
    slow = overdue(play, partition)
    assert slow.attempt("send", partition=partition, value="late") is not None
    assert slow.attempt("commit") is not None
    successor = play.producer(slow.transactional_id)
    successor.begin()
    successor.send(partition, "kept")
    successor.commit()
    play.reader([partition]).wait_for(partition, "kept")


def test_it_may_go_on_if_its_client_knows_how(play: Play) -> None:
    (partition,) = play.topic()
    slow = overdue(play, partition)
    assert slow.attempt("send", partition=partition, value="late") is not None
    goes_on = slow.attempt("abort") is None
    assert goes_on == slow.kind.can("go on after a time-out")
    if goes_on:
        slow.begin()
        slow.send(partition, "again")
        slow.commit()
        play.reader([partition]).wait_for(partition, "again")
