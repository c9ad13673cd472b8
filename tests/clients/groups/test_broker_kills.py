"""A broker that is killed again and again while a group commits.

No offset is lost whose commit was acknowledged, and members go on where they were.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.groups.brokers import options
from tests.clients.groups.coordinator import committed_offsets
from tests.clients.groups.group import Group, Groups, Member
from tests.clients.groups.kinds import CONFLUENT, CONFLUENT_CONSUMER, Kind
from tests.clients.groups.processes import Processes
from tests.clients.groups.programs.member import Partition
from tests.clients.mortal import MortalBroker, mortal_pyk

KILLS = 2
COMMITS_BETWEEN = 20


@pytest.mark.parametrize("kind", [CONFLUENT, CONFLUENT_CONSUMER], ids=lambda kind: kind.name)
def test_no_acknowledged_commit_is_lost(kind: Kind, processes: Processes, tmp_path: Path) -> None:
    broker = mortal_pyk(tmp_path / "data", *options())
    commit_while_it_is_killed(broker, kind, processes)


def commit_while_it_is_killed(broker: MortalBroker, kind: Kind, processes: Processes) -> None:
    with broker:
        group = Groups(broker.address, kind, processes).new(partitions=4)
    group.tolerates_failures = True
    acknowledged: dict[Partition, int] = {}
    read_before = 0
    with group, ExitStack() as traffic:
        members: list[Member] = []
        for number in range(KILLS + 1):
            with broker:
                if number == 0:
                    members = [group.join(commits_always=True) for _ in range(2)]
                    group.wait_until_shared_by(*members)
                    traffic.enter_context(group.traffic())
                kept = committed_offsets(broker.address, group.name)
                assert all(kept[each] >= offset for each, offset in acknowledged.items())
                wait_for_commits(group, members)
                if number < KILLS:
                    broker.kill()
                else:
                    traffic.close()
                    group.wait_until_read(group.sent)
                    for member in members:
                        member.leave()
            group.take_in(0)
            since = group.reads[read_before:]
            assert [
                each for each in since if each.offset < acknowledged.get(each.partition, 0)
            ] == []
            read_before = len(group.reads)
            for member in members:
                for each, offset in member.committed.items():
                    acknowledged[each] = max(offset, acknowledged.get(each, 0))


def wait_for_commits(group: Group, members: list[Member]) -> None:
    wanted = {each: each.commits + COMMITS_BETWEEN for each in members}
    group.wait_until(
        lambda: all(each.commits >= count for each, count in wanted.items()),
        f"each has committed {COMMITS_BETWEEN} times more",
    )
