"""What members say to each other is taken unread. Whatever it is, it ends nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pyk.coordinator.consumer.consumer_protocol import encode_assignment
from pyk.errors import KafkaError
from tests.coordinator.consumer.coordinator import GROUP, Coordinator
from tests.coordinator.consumer.test_migration import Migration, subscription


def some_bytes(rng: Random, it: Coordinator) -> bytes:
    """Nothing, noise, or a message that is cut off or has a byte changed."""
    whole = rng.choice(
        [
            subscription(["a", "b", "gone"], {"a": {0, -5, 10**6}, "gone": {1}}),
            encode_assignment({it.topic_id("a"): frozenset({0, 1, 77})}, 3, it.image),
            rng.randbytes(rng.randrange(40)),
            b"",
        ]
    )
    damaged = bytearray(whole[: rng.randrange(len(whole) + 1)] if rng.random() < 0.3 else whole)
    if damaged and rng.random() < 0.5:
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def tried(action: Callable[[], Any]) -> Any:
    """A refusal is an answer too."""
    try:
        return action()
    except KafkaError as refusal:
        return refusal


def answers(it: Migration) -> list[str]:
    """The ids that members were told."""
    found = [getattr(each, "member_id", "") for each in it.answers.values()]
    it.answers.clear()
    return [member_id for member_id in found if member_id]


def actions(it: Migration, rng: Random, known: list[str]) -> list[Callable[[], Any]]:
    """What may happen next."""
    member_id, generation = rng.choice(known), rng.randrange(8)
    first = subscription(["a"], {}) if rng.random() < 0.8 else some_bytes(rng, it)
    liked, disliked = rng.sample(["range", "other"], 2)
    offered = [(liked, first), (disliked, some_bytes(rng, it))]
    instance_id = "i1" if rng.random() < 0.2 else None
    given = {each: some_bytes(rng, it) for each in known}
    return [
        lambda: it.classic_join("", protocols=offered, group_instance_id=instance_id),
        lambda: it.classic_join(member_id, protocols=offered),
        lambda: it.sync(member_id, generation, given),
        lambda: it.classic_beat(member_id, generation),
        lambda: it.join("new", "a"),
        lambda: it.join("static", "a", "b", instance_id="i1"),
        lambda: it.beat("new", generation, {}),
        lambda: it.leave("new"),
        lambda: it.leave("static", instance_id="i1"),
        lambda: it.pass_time(rng.choice([0, 1, 1, 1, 46])),
        lambda: it.ask(lambda groups, ticket, now: groups.describe(GROUP, 0, ticket, now)),
        it.described,
        it.restart,
    ]


@pytest.mark.parametrize("seed", range(150))
def test_a_group_of_members_who_say_anything_changes_its_protocol_and_goes_on(seed: int) -> None:
    rng = Random(seed)
    it = Migration({"a": 4, "b": 2}, seed=seed, group_initial_rebalance_delay_ms=0)
    known = ["new", "static"]
    for _ in range(60):
        tried(rng.choice(actions(it, rng, known)))
        known = (known + answers(it))[-6:]
    tried(lambda: it.leave("new"))
    tried(lambda: it.leave("static", instance_id="i1"))
    it.pass_time(3600)
