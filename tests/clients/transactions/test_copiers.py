"""A group that copies records in transactions, each exactly once, whoever comes, goes or hangs."""

from __future__ import annotations

import uuid
from itertools import count

from tests.clients.groups.programs.member import Partition
from tests.clients.transactions.coordinator import committed_offset
from tests.clients.transactions.play import SHORT_MS, SHORT_SESSION_MS, Copier, Play

PARTITIONS = 4
EACH = 25


class Copy:
    """A topic that is to be copied, and how far it is written."""

    def __init__(self, play: Play, **copiers: int) -> None:
        self.source = play.topic(PARTITIONS)
        self.target = play.topic(PARTITIONS)
        self.group = f"group-{uuid.uuid4()}"
        self._play = play
        self._copiers = copiers
        self._values = (f"{number}" for number in count())
        self._written: dict[Partition, list[str]] = {each: [] for each in self.source}

    def write(self) -> None:
        """So many records to each partition."""
        for each in self.source:
            values = [next(self._values) for _ in range(EACH)]
            self._written[each] += values
            self._play.write(each, *values)

    def copier(self) -> Copier:
        return self._play.copier(
            self.group, self.source[0].topic, self.target[0].topic, **self._copiers
        )

    def wait_until_exact(self) -> None:
        """Every record is there once, and in order, and so it stays."""
        reader = self._play.reader(self.target)
        for each in self.source:
            reader.wait_for(Partition(self.target[0].topic, each.number), *self._written[each])
        for each in self.source:
            committed = committed_offset(self._play.address, self.group, each)
            assert committed == len(self._written[each])
        self.write()
        for each in self.source:
            reader.wait_for(Partition(self.target[0].topic, each.number), *self._written[each])


def test_records_are_copied_once_when_members_come_and_go(play: Play) -> None:
    copy = Copy(play)
    copy.write()
    first = copy.copier()
    first.wait_for_copies(EACH)
    copy.write()
    second = copy.copier()
    second.wait_until_assigned(PARTITIONS // 2)
    copy.write()
    second.wait_for_copies(EACH)
    first.close()
    second.wait_until_assigned(PARTITIONS)
    copy.wait_until_exact()


def test_records_are_copied_once_when_a_member_is_killed_in_a_transaction(play: Play) -> None:
    copy = Copy(play, session_ms=SHORT_SESSION_MS, timeout_ms=SHORT_MS)
    first, second = copy.copier(), copy.copier()
    second.wait_until_assigned(PARTITIONS // 2)
    first.hang(copy.write)
    first.kill()
    third = copy.copier()
    third.wait_until_assigned(PARTITIONS // 2)
    copy.write()
    third.wait_for_copies(EACH)
    copy.wait_until_exact()


def test_a_member_that_wakes_up_late_is_refused(play: Play) -> None:
    """Its transaction is still open, but its partitions are another's (KIP-447)."""
    play.kind.needs_to("be fenced by the generation of its group")
    copy = Copy(play, session_ms=SHORT_SESSION_MS)
    first, second = copy.copier(), copy.copier()
    second.wait_until_assigned(PARTITIONS // 2)
    first.hang(copy.write)
    first.freeze()
    second.wait_until_assigned(PARTITIONS)
    second.wait_for_copies(EACH)
    first.thaw()
    first.go_on()
    play.wait_until(lambda: bool(first.aborted), f"{first} is refused")
    copy.wait_until_exact()
