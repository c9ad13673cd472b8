"""What a leader takes for committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyk.replication.leader import Appended, CommitTo, Effect, Event, IsrChanged, Leader, Truncated


class Leading(Leader):
    """With a log that does what it is told."""

    high_watermark: int = 0

    def hear(self, event: Event) -> list[Effect]:
        if isinstance(event, Truncated):
            self.high_watermark = min(self.high_watermark, event.end_offset)
        effects = self.step(event, self.high_watermark)
        for effect in effects:
            self.high_watermark = effect.offset
        return effects


def alone(log_end: int = 0) -> Leading:
    return Leading(node_id=1, leader_epoch=0, log_end=log_end, in_sync=frozenset({1}))


def test_with_one_replica_everything_is_committed_at_once() -> None:
    leader = alone()
    assert leader.hear(Appended(3)) == [CommitTo(3)]
    assert leader.hear(Appended(3)) == []
    assert leader.hear(Appended(7)) == [CommitTo(7)]


def test_what_a_replica_in_sync_is_not_known_to_have_is_not_committed() -> None:
    leader = alone()
    leader.in_sync = frozenset({1, 2})
    assert leader.hear(Appended(3)) == []
    leader.follower_ends[2] = 2
    assert leader.hear(Appended(4)) == [CommitTo(2)]


def test_after_a_truncation_nothing_is_committed_that_is_not_there() -> None:
    leader = alone()
    leader.hear(Appended(10))
    assert leader.hear(Truncated(4)) == []
    assert leader.high_watermark == 4
    assert leader.hear(Appended(5)) == [CommitTo(5)]


def test_a_replica_that_leaves_the_isr_is_not_waited_for() -> None:
    leader = alone()
    leader.hear(IsrChanged(frozenset({1, 2})))
    assert leader.hear(Appended(3)) == []
    assert leader.hear(IsrChanged(frozenset({1}))) == [CommitTo(3)]
    assert leader.hear(IsrChanged(frozenset({1, 2}))) == []
    assert leader.hear(Appended(4)) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_what_is_committed_is_there(steps: list[tuple[bool, int]]) -> None:
    leader = alone()
    for is_append, number in steps:
        event: Event = (
            Appended(leader.log_end + number)
            if is_append
            else Truncated(min(number, leader.log_end))
        )
        leader.hear(event)
        assert leader.high_watermark <= leader.log_end
