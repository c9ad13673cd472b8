"""Whatever members do, however the log is, and whenever writes fail or the broker is killed:

- no two members have one offset;
- no record is lost: it is acknowledged, archived for a reason, or somebody can acquire it;
- no record is delivered more often than the limit, nor after it was accepted;
- a crash forgets no delivery, and makes up none: a record counts as delivered as often as it was
  persisted that somebody is to get it;
- what is persisted begins where it should, and counts what is complete.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyk.sharing.delivery import Acknowledgement
from tests.sharing.history import History
from tests.sharing.log import Read

MEMBERS = st.sampled_from(["ann", "bob", "cy"])
SIZES = st.integers(1, 6)
KINDS = st.sampled_from([0, 1, 1, 2, 2, 2, 3, 4])


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.reads: list[Read] = []

    @initialize(batches=st.lists(SIZES, min_size=3, max_size=8))
    def begin(self, batches: list[int]) -> None:
        for size in batches:
            self.history.log.append(size, 0, is_aborted=False)

    @rule(size=SIZES, hole=st.sampled_from([0, 0, 0, 1, 3]), is_aborted=st.booleans())
    def produce(self, size: int, hole: int, is_aborted: bool) -> None:
        self.history.log.append(size, hole, is_aborted=is_aborted)

    @rule(at=st.integers(0, 8))
    def compact(self, at: int) -> None:
        self.history.log.compact(at)

    @rule(count=st.integers(1, 4))
    def read(self, count: int) -> None:
        share = self.history.share
        self.reads.append(self.history.log.read(share.next_fetch_offset(), count))

    @rule(member=MEMBERS, max_records=st.integers(1, 12), batch_size=SIZES, is_strict=st.booleans())
    def acquire(self, member: str, max_records: int, batch_size: int, is_strict: bool) -> None:
        """What was read, perhaps a while ago."""
        if self.reads:
            self.history.fetch(
                member, self.reads.pop(0), max_records, batch_size, is_strict=is_strict
            )

    @rule(member=MEMBERS, max_records=st.integers(1, 12), batch_size=SIZES, is_strict=st.booleans())
    def fetch(self, member: str, max_records: int, batch_size: int, is_strict: bool) -> None:
        read = self.history.log.read(self.history.share.next_fetch_offset(), 4)
        self.history.fetch(member, read, max_records, batch_size, is_strict=is_strict)

    @rule(
        member=MEMBERS, max_records=st.integers(1, 24), reaches=st.booleans(), crashes=st.booleans()
    )
    def fetch_one_batch_and_fail(
        self, member: str, max_records: int, reaches: bool, crashes: bool
    ) -> None:
        """What comes to who waits is mostly one batch. Its write fails, or the broker is killed
        before anybody knows."""
        read = self.history.log.read(self.history.share.next_fetch_offset(), 1)
        self.history.fetch(member, read, max_records, 500, is_strict=True)
        self.history.write(reaches=reaches, is_heard=False)
        if crashes:
            self.crash()
        else:
            self.history.settle(0)

    @rule(
        member=MEMBERS, skip=st.integers(0, 20), sizes=st.lists(SIZES, max_size=2), data=st.data()
    )
    def acknowledge(self, member: str, skip: int, sizes: list[int], data: st.DataObject) -> None:
        """Some offsets, whoever has them."""
        base, said = max(self.history.share.start_offset - 2 + skip, 0), []
        for size in sizes:
            count = data.draw(st.sampled_from([1, size]))
            kinds = data.draw(st.lists(KINDS, min_size=count, max_size=count))
            said.append(Acknowledgement(base, base + size - 1, kinds))
            base += size
        self.history.acknowledge(member, said)

    @rule(member=MEMBERS, kind=KINDS, is_one_by_one=st.booleans())
    def acknowledge_own(self, member: str, kind: int, is_one_by_one: bool) -> None:
        """All that a member has, run by run or one by one."""
        self.history.acknowledge(member, self._own(member, kind, is_one_by_one))

    @rule(member=MEMBERS, reaches=st.booleans(), crashes=st.booleans())
    def accept_and_fail_and_accept_less(self, member: str, reaches: bool, crashes: bool) -> None:
        """Where it was persisted nobody knows of it, and what comes then says otherwise."""
        self.history.calm()
        if self.history.acknowledge(member, self._own(member, 1, False)) is None:
            return
        self.history.write(reaches=reaches, is_heard=False)
        self.history.settle(0)
        self.history.acknowledge(member, self._own(member, 1, True)[:1])
        self.history.calm()
        if crashes:
            self.crash()

    @rule(
        member=MEMBERS,
        kind=st.sampled_from([0, 1]),
        is_one_by_one=st.booleans(),
        max_records=st.integers(1, 12),
        deleted=st.sampled_from([0, 0, 3]),
    )
    def accept_and_fetch(
        self, member: str, kind: int, is_one_by_one: bool, max_records: int, deleted: int
    ) -> None:
        """In one change, before which it may be found that records were deleted."""
        accepted = self.history.acknowledge(member, self._own(member, kind, is_one_by_one))
        self.delete_records(deleted)
        read = self.history.log.read(self.history.share.next_fetch_offset(), 4)
        self.history.fetch(member, read, max_records, 500, is_strict=True, onto=accepted)

    def _own(self, member: str, kind: int, is_one_by_one: bool) -> list[Acknowledgement]:
        history = self.history
        mine = sorted(
            o for o, h in history.held.items() if h.member == member and o not in history.busy
        )
        said: list[Acknowledgement] = []
        for offset in mine:
            if said and not is_one_by_one and said[-1].last_offset + 1 == offset:
                said[-1] = Acknowledgement(said[-1].first_offset, offset, [kind])
            else:
                said.append(Acknowledgement(offset, offset, [kind]))
        return said

    @rule(member=MEMBERS)
    def close_the_session(self, member: str) -> None:
        self.history.release(member)

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.history.now += seconds

    @rule()
    def expire(self) -> None:
        self.history.expire()

    @rule(records=st.integers(0, 10))
    def delete_records(self, records: int) -> None:
        log = self.history.log
        self.history.delete_before(min(self.history.share.start_offset + records, log.end))

    @rule()
    def write(self) -> None:
        self.history.write(reaches=True, is_heard=True)

    @rule(reaches=st.booleans())
    def fail_to_write(self, reaches: bool) -> None:
        self.history.write(reaches=reaches, is_heard=False)

    @rule(at=st.integers(0, 5))
    def settle(self, at: int) -> None:
        self.history.settle(at)

    @rule()
    def write_and_settle_all(self) -> None:
        self.history.calm()

    @rule()
    def crash(self) -> None:
        self.reads.clear()
        self.history.crash()

    @invariant()
    def all_is_as_in_the_model(self) -> None:
        self.history.check()

    def teardown(self) -> None:
        self.history.drain()


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
