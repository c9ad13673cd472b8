"""Groups with members of both protocols: from classic to consumer, and back."""

from __future__ import annotations

import pytest

from compat_tests.differential.comparison import Comparison, comparing
from compat_tests.differential.members import JOIN, Cast
from compat_tests.differential.sides import Sides
from compat_tests.differential.test_consumer_groups import (
    AT_ONCE,
    BEAT,
    beat,
    configure,
    join,
    written,
)
from pyk.wire.payloads.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from pyk.wire.prefixed import encode_value

TOPIC = "migrated"
VERSIONS = (3, 4, 5, 9)
"""Of JoinGroup: without and with ids that must be brought, with instances, the newest."""


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(TOPIC, partitions=4)
    configure(sides, *(f"migrating-{version}" for version in VERSIONS), values=AT_ONCE)


def holding(*partitions: int) -> dict[str, bytes]:
    """What a cooperative consumer says of itself."""
    owned = [OwnedPartitions(topic=TOPIC, partitions=list(partitions))] if partitions else []
    said = ConsumerProtocolSubscription(topics=[TOPIC], owned_partitions=owned)
    return {"range": encode_value(said, 3)}


def given(*partitions: int) -> bytes:
    parts = [AssignedPartitions(topic=TOPIC, partitions=list(partitions))]
    return encode_value(ConsumerProtocolAssignment(assigned_partitions=parts), 3)


@comparing("groups that migrate", unordered=("topic_partitions", "members"))
@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_migrates_and_comes_back_alike(
    compare: Comparison, sides: Sides, version: int
) -> None:
    group = f"migrating-{version}"
    with Cast.of(compare, group, version) as cast:
        cast.comes_in("old", "first", protocols=holding())
        cast.hears("old", JOIN, "first")
        cast.syncs("old", "first", 1, assignments={"old": given(0, 1, 2, 3)})
        compare.ask(BEAT, 1, "no member yet", beat(group, "new", 1))
        compare.ask(BEAT, 1, "a new member", join(group, "new", TOPIC))
        cast.describe("a consumer group")
        cast.beats("old", "must join again", 1)
        cast.beats("old", "another generation", 7)
        cast.beats("new", "of the other protocol", 2)
        cast.syncs("old", "too early", 1)
        cast.joins("old", "still holding all", protocols=holding(0, 1, 2, 3))
        cast.syncs("old", "gives back", 1)
        cast.syncs("old", "another protocol", 1, protocol_name="sticky")
        cast.commits("old", "giving back", 1)
        cast.beats("old", "gives back", 1)
        cast.joins("old", "has given back", protocols=holding(0, 1))
        cast.syncs("old", "has given back", 2)
        cast.beats("old", "has given back", 2)
        cast.commits("old", "of its generation", 2)
        cast.commits("old", "of a later one", 3)
        compare.ask(BEAT, 1, "gets it", beat(group, "new", 2))
        cast.joins("other", "nothing in common", protocols={"sticky": holding()["range"]})
        cast.leave("who is not there", "ghost")
        compare.ask(BEAT, 1, "the new member leaves", beat(group, "new", -1))
        cast.wait_for("PreparingRebalance", 1)
        cast.describe("a classic group")
        cast.beats("old", "classic again", 2)
        cast.joins("old", "classic again", protocols=holding(0, 1))
        cast.syncs("old", "classic again", 3, assignments={"old": given(0, 1, 2, 3)})
        cast.leave("the last", "old")
    kinds = [[type(record[0]) for record in written(side, group)] for side in sides]
    compare.judge("the log", *kinds)
