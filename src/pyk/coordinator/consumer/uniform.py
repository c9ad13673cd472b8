"""The uniform assignor: all members get the same number of partitions, or one more, and keep as
much as they can of what they had.

Where members subscribe to different topics, they get what is as near to that as their subscriptions
allow: no partition can be given to a subscriber of its topic that has two fewer than its owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from pyk.coordinator.assigned import Targets
from pyk.coordinator.consumer.assignors import Subscriber
from pyk.types import Uuid

ROUNDS_MAX: Final = 16
"""How often all topics are gone through to balance them, if each time something was moved. Almost
always two are enough."""


def assign(members: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]) -> Targets:
    if not members:
        return {}
    subscriptions = {member.topics for member in members.values()}
    shared = _alike if len(subscriptions) == 1 else _different
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in topics.items() if numbers}
        for member_id, topics in shared(members, partition_counts).items()
    }


def _alike(
    members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]
) -> dict[str, dict[Uuid, set[int]]]:
    quota, with_one_more = divmod(sum(counts.values()), len(members))
    targets: dict[str, dict[Uuid, set[int]]] = {}
    free = {topic_id: set(range(count)) for topic_id, count in counts.items()}
    room: dict[str, int] = {}
    for seen, member_id in enumerate(sorted(members)):
        may_have_one_more = with_one_more > 0
        kept, left = _kept(members[member_id], free, quota + may_have_one_more)
        # The odd ones are for those who have one already, as long as enough members are to come.
        if may_have_one_more and left and len(members) - seen > with_one_more:
            may_have_one_more, left = False, left - 1
        with_one_more -= may_have_one_more
        targets[member_id], room[member_id] = kept, left
    to_give = ((topic_id, number) for topic_id in free for number in sorted(free[topic_id]))
    for member_id, left in room.items():
        _give(targets[member_id], to_give, left)
    assert next(to_give, None) is None
    return targets


def _kept(
    member: Subscriber, free: Mapping[Uuid, set[int]], quota: int
) -> tuple[dict[Uuid, set[int]], int]:
    """What it keeps of its target, which is free no more, and how many more it may have."""
    kept: dict[Uuid, set[int]] = defaultdict(set)
    for topic_id, numbers in member.target.items():
        if topic_id in free and quota:
            kept[topic_id] = set(sorted(numbers & free[topic_id])[:quota])
            free[topic_id].difference_update(kept[topic_id])
            quota -= len(kept[topic_id])
    return kept, quota


def _give(target: dict[Uuid, set[int]], partitions: Iterator[tuple[Uuid, int]], count: int) -> None:
    for _ in range(count):
        found = next(partitions, None)
        if found is None:
            return
        topic_id, number = found
        target[topic_id].add(number)


def _different(
    members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]
) -> dict[str, dict[Uuid, set[int]]]:
    targets: dict[str, dict[Uuid, set[int]]] = {}
    subscribers: dict[Uuid, list[str]] = {topic_id: [] for topic_id in counts}
    free = {topic_id: set(range(count)) for topic_id, count in counts.items()}
    for member_id in sorted(members):
        member = members[member_id]
        targets[member_id] = {t: free[t] & member.target.get(t, frozenset()) for t in member.topics}
        for topic_id, kept in targets[member_id].items():
            free[topic_id] -= kept
            subscribers[topic_id].append(member_id)
    loads = {each: sum(map(len, topics.values())) for each, topics in targets.items()}
    # Whoever can choose least comes first: many partitions for each subscriber, few subscribers.
    in_order = sorted(
        (topic_id for topic_id in counts if subscribers[topic_id]),
        key=lambda t: (-counts[t] / len(subscribers[t]), len(subscribers[t]), t),
    )
    for topic_id in in_order:
        _give_what_is_free(topic_id, free[topic_id], subscribers[topic_id], targets, loads)
    shared = [topic_id for topic_id in in_order if len(subscribers[topic_id]) > 1]
    for _ in range(ROUNDS_MAX):
        if not sum(
            _balance(topic_id, subscribers[topic_id], targets, loads) for topic_id in shared
        ):
            break
    return targets


def _give_what_is_free(
    topic_id: Uuid,
    free: set[int],
    subscribers: list[str],
    targets: dict[str, dict[Uuid, set[int]]],
    loads: dict[str, int],
) -> None:
    """Each partition that nobody has goes to who has least."""
    least = [(loads[member_id], member_id) for member_id in subscribers]
    heapify(least)
    for number in sorted(free):
        load, member_id = least[0]
        targets[member_id][topic_id].add(number)
        loads[member_id] = load + 1
        heapreplace(least, (load + 1, member_id))


def _balance(
    topic_id: Uuid,
    subscribers: list[str],
    targets: dict[str, dict[Uuid, set[int]]],
    loads: dict[str, int],
) -> int:
    """Move partitions of one topic from who has most to who has least. How many were moved."""
    least = [(loads[member_id], member_id) for member_id in subscribers]
    most = [(-loads[each], each) for each in subscribers if targets[each][topic_id]]
    heapify(least)
    heapify(most)
    moved = 0
    while most:
        load, giver = -most[0][0], most[0][1]
        if load != loads[giver] or not targets[giver][topic_id]:
            # It has given or got something since.
            heappop(most)
            if targets[giver][topic_id]:
                heappush(most, (-loads[giver], giver))
            continue
        while least[0][0] != loads[least[0][1]]:
            heapreplace(least, (loads[least[0][1]], least[0][1]))
        taker = least[0][1]
        if load - loads[taker] <= 1:
            break
        number = max(targets[giver][topic_id])
        targets[giver][topic_id].remove(number)
        targets[taker][topic_id].add(number)
        loads[giver] -= 1
        loads[taker] += 1
        moved += 1
    return moved
