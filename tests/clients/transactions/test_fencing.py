"""A producer whose place another has taken, and who does not know of it."""

from __future__ import annotations

from tests.clients.transactions.play import Play


def test_what_a_zombie_does_late_is_refused_and_the_successor_goes_on(play: Play) -> None:
    (partition,) = play.topic()
    zombie = play.producer()
    zombie.begin()
    zombie.send(partition, "lost")
    successor = play.producer(zombie.transactional_id)
    successor.begin()
    successor.send(partition, "kept")
    refusals = [
        zombie.attempt("send", partition=partition, value="late"),
        zombie.attempt("commit"),
    ]
    assert None not in refusals
    # Some say it once, and then that there is nothing to commit.
    assert zombie.kind.fenced & set(refusals)
    successor.send(partition, "too")
    successor.commit()
    play.reader([partition]).wait_for(partition, "kept", "too")


def test_a_zombie_that_only_commits_is_refused(play: Play) -> None:
    (partition,) = play.topic()
    zombie = play.producer()
    zombie.begin()
    zombie.send(partition, "lost")
    successor = play.producer(zombie.transactional_id)
    assert zombie.attempt("commit") in zombie.kind.fenced
    successor.begin()
    successor.send(partition, "kept")
    successor.commit()
    play.reader([partition]).wait_for(partition, "kept")


def test_a_zombie_may_not_begin_again(play: Play) -> None:
    (partition,) = play.topic()
    zombie = play.producer()
    zombie.begin()
    zombie.send(partition, "before")
    zombie.commit()
    successor = play.producer(zombie.transactional_id)
    successor.begin()
    successor.send(partition, "kept")
    # Some clients ask nobody before they write.
    zombie.attempt("begin")
    assert zombie.attempt("send", partition=partition, value="late") is not None
    assert zombie.attempt("commit") is not None
    successor.commit()
    play.reader([partition]).wait_for(partition, "before", "kept")
