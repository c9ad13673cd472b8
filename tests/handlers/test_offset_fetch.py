"""OffsetFetch of many groups at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from pyk.coordinator.group_coordinator import GroupShards
from pyk.coordinator.groups import Groups
from pyk.coordinator.machine import Decision, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import offset_fetch
from pyk.handlers.context import Context
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from tests.coordinator.test_group_coordinator import TOPIC, begin, commit
from tests.handlers.brokers import ask, open_context
from tests.handlers.turns import counting_turns


async def fetch(broker: Context, groups: list[OffsetFetchRequestGroup]) -> list[Any]:
    request = OffsetFetchRequest(groups=groups)
    response = await ask(offset_fetch.handle, offset_fetch.refuse, request, broker, 8)
    return response.groups


def told(group: OffsetFetchResponseGroup) -> tuple[str, int, list[int]]:
    offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
    return group.group_id, group.error_code, offsets


async def test_a_group_that_is_named_very_often_keeps_nobody_waiting() -> None:
    async with open_context() as broker:
        await begin(broker)
        await commit(broker, 5, "orders")
        groups = [OffsetFetchRequestGroup(group_id="orders", topics=[]) for _ in range(20_000)]
        async with counting_turns() as turns:
            answers = await fetch(broker, groups)
            count = turns.count
        assert len(answers) == 20_000
        assert count >= 3


class Late:
    """Groups of which some answer later, as if what they had were still to be replicated."""

    def __init__(self, groups: GroupShards) -> None:
        self._groups = groups

    def execute(self, key: str, decide: Callable[[Groups, Ticket, float], Decision]) -> Any:
        found = self._groups.execute(key, decide)
        return self._later(key, found) if key.startswith("late") else found

    async def _later(self, key: str, found: Any) -> Any:
        if key == "late and refused":
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return found


async def test_groups_are_answered_in_their_order_whoever_of_them_waits() -> None:
    async with open_context() as broker:
        await begin(broker)
        names = ["a", "late", "late and refused", "b", "late too"]
        for offset, name in enumerate(names):
            await commit(broker, offset, name)
        shards = broker.groups
        broker.group_shards = cast("GroupShards", Late(shards))
        some = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[1, 0])]
        every = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        wanted = OffsetFetchRequestGroup(group_id="a", topics=some)
        answers = await fetch(broker, [*every, wanted])
        broker.group_shards = shards
        assert [told(each) for each in answers] == [
            ("a", 0, [0]),
            ("late", 0, [1]),
            ("late and refused", ErrorCode.NOT_COORDINATOR, []),
            ("b", 0, [3]),
            ("late too", 0, [4]),
            ("a", 0, [-1, 0]),
        ]


class Counting:
    """Groups that count how often each is asked."""

    def __init__(self, groups: GroupShards) -> None:
        self._groups = groups
        self.asked: Counter[str] = Counter()

    def execute(self, key: str, decide: Callable[[Groups, Ticket, float], Decision]) -> Any:
        self.asked[key] += 1
        return self._groups.execute(key, decide)


async def test_a_group_that_is_named_again_for_all_it_has_is_looked_at_once() -> None:
    """Twenty bytes of a request would ask for the offsets of ten thousand partitions each time."""
    async with open_context() as broker:
        await begin(broker)
        for offset, name in enumerate(("a", "b")):
            await commit(broker, offset, name)
        shards = broker.groups
        counting = Counting(shards)
        broker.group_shards = cast("GroupShards", counting)
        every = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in "ab"]
        as_member = OffsetFetchRequestGroup(
            group_id="a", member_id="ann", member_epoch=1, topics=None
        )
        request = OffsetFetchRequest(groups=[*every * 50, as_member])
        response = await ask(offset_fetch.handle, offset_fetch.refuse, request, broker, 9)
        broker.group_shards = shards
        assert [told(each) for each in response.groups[:100]] == [
            ("a", 0, [0]),
            ("b", 0, [1]),
        ] * 50
        # A member may be refused, so the group is asked for it.
        assert counting.asked == {"a": 2, "b": 1}
