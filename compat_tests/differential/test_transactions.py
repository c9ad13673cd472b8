"""Transactions of both versions: what each API answers in each state, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.listed import SAYS_WHY, WHY_IT_IS_REFUSED
from compat_tests.differential.requests import fetch as fetch_of
from compat_tests.differential.requests import wanted
from compat_tests.differential.sides import Side, Sides
from compat_tests.differential.stored import stored_transaction
from compat_tests.differential.transactions import (
    ADD,
    ADD_OFFSETS,
    COMMIT_OFFSETS,
    DESCRIBE,
    END,
    FETCH,
    INIT,
    LIST,
    MARKERS,
    NOBODYS,
    PRODUCE,
    PRODUCERS,
    TIMES,
    TOPIC,
    V1_ADD,
    V1_END,
    V2_ADD,
    V2_END,
    Scene,
    add,
    add_offsets,
    begin,
    commit_offsets,
    describe,
    end,
    init,
    listed,
    look_at_offsets,
    markers,
    producers,
    settle,
    verifying,
    write,
)
from pyk.coordinator.internal_topics import TRANSACTION_TOPIC
from pyk.wire.apis import ApiKey
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyk.wire.messages.write_txn_markers import WriteTxnMarkersRequest


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(TOPIC, partitions=40)


TRANSACTED = {SAYS_WHY: WHY_IT_IS_REFUSED}
COMPARED: Final[dict[str, Any]] = {
    "unordered": ("topics", "partitions", "results_by_partition", "results_by_transaction")
}


@pytest.fixture(autouse=True)
def _times_are_not_compared(sides: Sides) -> None:
    for side in sides:
        side.own |= set(TIMES)


@comparing("transactions v1", TRANSACTED, **COMPARED)
def test_a_transaction_of_the_first_version_goes_the_same_way(compare: Comparison) -> None:
    for version in range(V1_END + 1):
        for number, commit in enumerate((True, False)):
            partition = version * 2 + number
            scene = Scene(compare, f"v1-{version}-{commit}", partition)
            name, adding = scene.name, min(version, V1_ADD)
            scene.step(END, version, "nothing", end(name, 0, commit))
            scene.step(ADD, adding, "one", add(name, 0, partition))
            scene.step(ADD, adding, "again", add(name, 0, partition))
            scene.step(PRODUCE, 9, "one", write(name, 0, 0, partition))
            scene.step(PRODUCE, 11, "another", write(name, 0, 1, partition))
            scene.step(PRODUCE, 11, "not added", write(name, 0, 0, partition + 1))
            scene.step(PRODUCE, 9, "not added", write(name, 0, 0, partition + 1))
            scene.step(PRODUCE, 9, "outside", write(name, 0, 2, partition, transactional=False))
            scene.look("ongoing")
            scene.step(END, version, "behind", end(name, -1, commit))
            scene.step(END, version, "ahead", end(name, 1, commit))
            scene.step(END, version, "of nobody", end(name, 0, commit, NOBODYS))
            scene.step(END, version, "end", end(name, 0, commit))
            scene.settle("ended")
            scene.step(END, version, "again", end(name, 0, commit))
            scene.step(END, version, "otherwise", end(name, 0, not commit))
            scene.step(PRODUCE, 11, "late", write(name, 0, 2, partition))
            scene.step(PRODUCE, 9, "late", write(name, 0, 2, partition))
            scene.step(ADD, adding, "the next", add(name, 0, partition))
            scene.step(PRODUCE, 9, "the next", write(name, 0, 2, partition))
            scene.step(PRODUCE, 9, "what was there", write(name, 0, 1, partition))
            scene.step(INIT, 4, "a new producer", init(name))
            scene.settle("fenced")
            scene.step(END, version, "fenced", end(name, 0, commit))
            scene.step(ADD, adding, "fenced", add(name, 0, partition))
            scene.step(PRODUCE, 9, "fenced", write(name, 0, 3, partition))


@comparing("transactions v2", TRANSACTED, **COMPARED)
def test_a_transaction_of_the_second_version_goes_the_same_way(compare: Comparison) -> None:
    for number, commit in enumerate((True, False)):
        for version in (12, 13):
            partition = 12 + version * 2 - 24 + number
            scene = Scene(compare, f"v2-{version}-{commit}", partition)
            name = scene.name
            scene.step(END, V2_END, "commit of nothing", end(name, 0, True))
            scene.step(PRODUCE, version, "ahead", write(name, 1, 0, partition))
            scene.step(PRODUCE, version, "not from 0", write(name, 0, 4, partition))
            scene.step(PRODUCE, version, "one", write(name, 0, 0, partition))
            scene.step(PRODUCE, version, "again", write(name, 0, 0, partition))
            scene.step(PRODUCE, version, "another", write(name, 0, 1, partition))
            scene.step(PRODUCE, version, "of nobody", write(name, 0, 0, 30, producer_id=NOBODYS))
            scene.step(
                PRODUCE, version, "no id", write(name, 0, 2, partition, transactional_id=None)
            )
            scene.look("ongoing")
            scene.step(END, V2_END, "behind", end(name, -1, commit))
            scene.step(END, V2_END, "ahead", end(name, 1, commit))
            scene.step(END, V2_END, "of nobody", end(name, 0, commit, NOBODYS))
            scene.step(END, V2_END, "end", end(name, 0, commit))
            scene.settle("ended")
            scene.step(END, V2_END, "again", end(name, 0, commit))
            scene.step(END, V2_END, "otherwise", end(name, 0, not commit))
            scene.step(END, V2_END, "commit of nothing again", end(name, 1, True))
            scene.step(PRODUCE, version, "late", write(name, 0, 2, partition))
            scene.step(PRODUCE, version, "what was there", write(name, 0, 1, partition))
            scene.step(PRODUCE, version, "the next", write(name, 1, 0, partition))
            scene.step(END, V2_END, "late end", end(name, 0, commit))
            scene.step(END, V2_END, "late end otherwise", end(name, 0, not commit))
            scene.look("the next")
            scene.step(END, V2_END, "abort", end(name, 1, False))
            scene.settle("aborted")
            scene.step(END, V2_END, "abort of nothing", end(name, 2, False))
            scene.settle("aborted nothing")
            scene.step(END, V2_END, "that again", end(name, 2, False))
            scene.step(INIT, 4, "with the epoch before", init(name, 2))
            scene.step(INIT, 4, "with the epoch", init(name, 3))
            scene.step(INIT, 4, "that again", init(name, 3))
            scene.step(INIT, 4, "with an old one", init(name, 1))
            scene.look("initialised")
    compare.ask(FETCH, 12, "committed", fetch_of(wanted(12), topic=TOPIC, isolation_level=1))


IN_TURN = {
    "an end of the other version": Listed(
        "v2 again",
        "",
        "Kafka takes the epoch before for a request that is sent again, whoever has ended what.",
    )
}


@comparing("both versions in turn", IN_TURN, **COMPARED)
def test_clients_of_both_versions_take_turns_alike(compare: Comparison) -> None:
    scene = Scene(compare, "turns", 20)
    name = scene.name
    scene.step(ADD, V1_ADD, "v1", add(name, 0, 20))
    scene.step(END, V2_END, "v2", end(name, 0, True))
    scene.settle("v2 after v1")
    scene.step(ADD, V2_ADD, "v2", add(name, 1, 20))
    scene.step(END, V1_END, "v1", end(name, 1, True))
    scene.settle("v1 after v2")
    scene.step(END, V2_END, "v2 again", end(name, 0, True))
    scene.step(END, V1_END, "v1 again", end(name, 1, True))
    compare.judge("the log", *compare.sides.each(lambda side: stored_transaction(side, name)))


DELIVERED_TWICE = {
    "what comes after a batch that was delivered twice": Listed(
        "the next",
        r"(error_code: kafka 45, pyk 0|base_offset: kafka -1, pyk 2|error_message: .*)$",
        "Kafka waits for the lowest sequence that it asked the coordinator about, although that"
        " batch is there, and was refused for good. Only a marker makes it forget.",
    ),
    "where that is at last": Listed(
        "once more",
        r"(base_offset: kafka 3, pyk 2|log_append_time_ms: .*)$",
        "pyk has it from the first time.",
    ),
}


@comparing("a batch that is delivered twice", DELIVERED_TWICE, **COMPARED)
def test_a_batch_that_is_delivered_again_after_its_transaction(compare: Comparison) -> None:
    scene = Scene(compare, "twice", 38)
    name = scene.name
    scene.step(ADD, V1_ADD, "one", add(name, 0, 38))
    scene.step(PRODUCE, 11, "one", write(name, 0, 0, 38))
    scene.step(END, V1_END, "end", end(name, 0, True))
    scene.settle("ended")
    scene.step(PRODUCE, 11, "one again", write(name, 0, 0, 38))
    scene.step(ADD, V1_ADD, "another", add(name, 0, 38))
    scene.step(PRODUCE, 11, "the next", write(name, 0, 1, 38))
    scene.step(END, V1_END, "abort", end(name, 0, False))
    settle(compare.sides, name)
    scene.step(ADD, V1_ADD, "a third", add(name, 0, 38))
    scene.step(PRODUCE, 11, "once more", write(name, 0, 1, 38))


ZOMBIE = "a zombie's InitProducerId"
INITIALISED_DIFFERENTLY = {
    ZOMBIE: Listed(
        "an old epoch, ongoing",
        r"\.error_code: kafka 51, pyk (90|47)$",
        "Kafka aborts the transaction of the producer that has replaced the one who asks.",
    )
}


@comparing("transactional producers", INITIALISED_DIFFERENTLY, **COMPARED)
def test_producers_are_fenced_alike(compare: Comparison) -> None:
    for version in versions(INIT):
        name, partition = f"fenced-{version}", 29 if version >= 3 else 21
        scene = Scene(compare, name, partition)
        scene.step(INIT, version, "again", init(name))
        scene.step(ADD, V1_ADD, "one", add(name, 1, partition))
        if version >= 3:
            scene.step(INIT, version, "an old epoch, ongoing", init(name, 0))
            continue
        scene.step(INIT, version, "ongoing", init(name))
        scene.settle("fenced")
    for version in (3, 4, 5):
        name = f"epochs-{version}"
        scene = Scene(compare, name, 21)
        scene.step(INIT, version, "its epoch", init(name, 0))
        scene.step(INIT, version, "again", init(name, 0))
        scene.step(INIT, version, "an epoch to come", init(name, 7))
        scene.step(INIT, version, "of nobody", init(name, 1, producer_id=NOBODYS))
        scene.step(INIT, version, "nobody before", init(f"{name}-new", 4, producer_id=NOBODYS))
        scene.step(ADD, V2_ADD, "one", add(name, 1, 21))
        scene.step(INIT, version, "ongoing", init(name, 1))
        scene.settle("fenced")
        scene.step(INIT, version, "what was fenced", init(name, 1))
        scene.step(INIT, version, "what is there", init(name, 2))
        scene.look("at last")
    compare.add(INIT, "without a name", init(""))
    for timeout_ms in (-1, 0, 900_001):
        compare.add(INIT, f"within {timeout_ms} ms", init("timeouts", timeout_ms=timeout_ms))


@comparing("transactions that take too long", **COMPARED)
def test_transactions_time_out_alike(compare: Comparison) -> None:
    scenes = []
    for version in (V1_ADD, V2_ADD):
        name = f"slow-{version}"
        scenes.append((Scene(compare, name, 22), version))
        begin(compare.sides, name, timeout_ms=10)
        compare.ask(ADD, version, "slow", add(name, 1, 22))
    for scene, version in scenes:
        name = scene.name
        scene.settle("timed out")
        scene.step(ADD, version, "after that", add(name, 1, 22))
        scene.step(END, V1_END, "commit", end(name, 1, True))
        scene.step(END, V1_END, "abort", end(name, 1, False))
        scene.step(END, V2_END, "commit", end(name, 1, True))
        scene.step(END, V2_END, "abort", end(name, 1, False))
        scene.step(INIT, 4, "to go on", init(name, 1))
        scene.look("going on")


@comparing("ADD_PARTITIONS_TO_TXN", **COMPARED)
def test_partitions_are_added_alike(compare: Comparison) -> None:
    begin(compare.sides, "adding")
    for case, make in {
        "to no transactional id": add("", 0, 0),
        "to an id that nobody has": add("nobody", 0, 0),
        "of another producer": add("adding", 0, 0, producer_id=NOBODYS),
        "behind": add("adding", -1, 0),
        "ahead": add("adding", 5, 0),
        "that are not there": add("adding", 0, 0, 40),
        "of no topic": add("adding", 0, 0, topic="nobody"),
        "none": add("adding", 0),
    }.items():
        compare.add(ADD, case, make)
        compare.add(ADD, f"{case}, verify", verifying(make), since=4)
    compare.add(ADD, "some", add("adding", 0, 23, 24))
    compare.add(ADD, "some, verify", add("adding", 0, 23, 25, verify=True), since=4)
    compare.ask(DESCRIBE, 0, "what was added", describe("adding"))


@comparing("offsets in transactions", **COMPARED)
def test_offsets_in_transactions_are_alike(compare: Comparison) -> None:
    sides = compare.sides
    for version in versions(COMMIT_OFFSETS):
        name, group_id = f"offsets-{version}", f"transacted-{version}"
        begin(sides, name)
        compare.ask(COMMIT_OFFSETS, version, "not added", commit_offsets(name, 0, 3, group_id))
        if version < 5:
            adding = min(version, 4)
            compare.ask(ADD_OFFSETS, adding, "add", add_offsets(name, 0, group_id))
            compare.ask(COMMIT_OFFSETS, version, "one", commit_offsets(name, 0, 3, group_id))
        look_at_offsets(compare, f"pending {version}", group_id)
        for case, make in {
            "another": commit_offsets(name, 0, 4, group_id, partition=1, metadata=None),
            "behind": commit_offsets(name, -1, 4, group_id),
            "ahead": commit_offsets(name, 4, 4, group_id),
            "of no topic": commit_offsets(name, 0, 4, group_id, topic="nobody"),
            "of no partition": commit_offsets(name, 0, 4, group_id, partition=99),
            "without a group": commit_offsets(name, 0, 4, ""),
            "noted at length": commit_offsets(name, 0, 4, group_id, metadata="x" * 5000),
            "of a generation": commit_offsets(name, 0, 4, group_id, generation_id=1),
            "of a member": commit_offsets(name, 0, 4, group_id, member_id="m"),
            "of both": commit_offsets(name, 0, 4, group_id, member_id="m", generation_id=1),
            "of an instance": commit_offsets(name, 0, 4, group_id, group_instance_id="i"),
        }.items():
            compare.ask(COMMIT_OFFSETS, version, case, make)
        compare.ask(END, 4 if version < 5 else 5, "commit", end(name, 0, True))
        settle(sides, name)
        look_at_offsets(compare, f"committed {version}", group_id)


@comparing("pending offsets that are deleted", **COMPARED)
def test_pending_offsets_are_deleted_alike(compare: Comparison) -> None:
    sides = compare.sides
    deleted = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=deleted)]
    for outcome in (True, False):
        for case, key, make in (
            (
                "offset",
                ApiKey.OFFSET_DELETE,
                lambda v, side: OffsetDeleteRequest(group_id="deleted-offset", topics=topics),
            ),
            (
                "group",
                ApiKey.DELETE_GROUPS,
                lambda v, side: DeleteGroupsRequest(groups_names=["deleted-group"]),
            ),
        ):
            name, group_id = f"deleting-{case}-{outcome}", f"deleted-{case}"
            begin(sides, name)
            compare.ask(COMMIT_OFFSETS, 5, case, commit_offsets(name, 0, 7, group_id))
            compare.ask(key, 0, f"pending {case}", make)
            look_at_offsets(compare, f"deleted {case}", group_id)
            compare.ask(COMMIT_OFFSETS, 5, f"{case} again", commit_offsets(name, 0, 8, group_id))
            compare.ask(END, 5, case, end(name, 0, outcome))
            settle(sides, name)
            look_at_offsets(compare, f"{case}, {outcome}", group_id)


@comparing("ADD_OFFSETS_TO_TXN", **COMPARED)
def test_offsets_are_added_alike(compare: Comparison) -> None:
    begin(compare.sides, "with-offsets")
    for case, make in {
        "one": add_offsets("with-offsets", 0),
        "without a group": add_offsets("with-offsets", 0, ""),
        "behind": add_offsets("with-offsets", -1),
        "ahead": add_offsets("with-offsets", 3),
        "of nobody": add_offsets("nobody", 0),
        "without an id": add_offsets("", 0),
    }.items():
        compare.add(ADD_OFFSETS, case, make)
    compare.ask(DESCRIBE, 0, "what was added", describe("with-offsets"))


@comparing("WRITE_TXN_MARKERS", **COMPARED)
def test_markers_are_written_alike(compare: Comparison) -> None:
    for version in versions(MARKERS):
        partition = 26 + version
        scene = Scene(compare, f"marked-{version}", partition)
        name = scene.name
        scene.step(PRODUCE, 12, "one", write(name, 0, 0, partition))
        for case, make in {
            "of no topic": markers(name, 0, True, 0, topic="nobody"),
            "of no partition": markers(name, 0, True, 99),
            "of the same epoch in v2": markers(name, 0, True, partition, transaction_version=2),
            "abort": markers(name, 0, False, partition),
            "again": markers(name, 0, False, partition),
            "of an old coordinator": markers(name, 0, True, partition, coordinator_epoch=-1),
            "of a new epoch": markers(name, 3, True, partition, transaction_version=2),
            "of an old epoch": markers(name, 2, True, partition),
            "of somebody else": markers("nobody", 3, True, partition),
            "of offsets": markers(name, 0, True, 3, topic="__consumer_offsets"),
        }.items():
            scene.step(MARKERS, version, case, make)
        scene.look("marked")
    compare.add(MARKERS, "none", lambda version, side: WriteTxnMarkersRequest(markers=[]))


@comparing("looking after transactions", **COMPARED)
def test_transactions_are_described_and_listed_alike(compare: Comparison) -> None:
    begin(compare.sides, "looked-at")
    compare.add(DESCRIBE, "some", describe("looked-at", "nobody", ""))
    compare.add(DESCRIBE, "none", describe())
    compare.ask(ADD, V1_ADD, "ongoing", add("looked-at", 0, 35, 36))
    compare.add(DESCRIBE, "ongoing", describe("looked-at"))
    states = ["Empty", "Ongoing", "PrepareCommit", "CompleteAbort", "Dead", "empty", "Odd", ""]
    for state in states:
        mine = listed(state_filters=[state], producer_id_filters=["looked-at"])
        compare.add(LIST, f"in state {state!r}", mine)
    compare.add(LIST, "of nobody", listed(producer_id_filters=["nobody"]))
    for pattern in ("looked.*", "look", "", "[", "nobody|looked-at", r"looked\-at"):
        mine = listed(producer_id_filters=["looked-at"], transactional_id_pattern=pattern)
        compare.add(LIST, f"like {pattern!r}", mine, since=2)
    for duration in (-1, 0, 10**12):
        mine = listed(producer_id_filters=["looked-at"], duration_filter=duration)
        compare.add(LIST, f"for {duration}", mine, since=1)
    compare.add(PRODUCERS, "of no partition", producers(99, -1))
    compare.add(PRODUCERS, "of no topic", producers(0, topic="nobody"))
    compare.add(PRODUCERS, "of none", producers())


@comparing("the records of transactions", **COMPARED)
def test_the_same_is_written(compare: Comparison, sides: Sides) -> None:
    name = "written"
    begin(sides, name)
    steps: list[tuple[ApiKey, int, Callable[[int], Make]]] = [
        (ADD, V1_ADD, lambda epoch: add(name, epoch, 37)),
        (END, V1_END, lambda epoch: end(name, epoch, True)),
        (ADD, V2_ADD, lambda epoch: add(name, epoch, 37)),
        (END, V2_END, lambda epoch: end(name, epoch, False)),
    ]
    epoch = 0
    for key, version, make in steps:
        compare.ask(key, version, "a step", make(epoch))
        if key is END:
            settle(sides, name)
    compare.ask(END, V2_END, "nothing", end(name, 1, False))
    settle(sides, name)
    begin(sides, name)
    compare.judge("the log", *sides.each(lambda side: stored_transaction(side, name)))
    resource = DescribeConfigsResource(
        resource_type=2, resource_name=TRANSACTION_TOPIC, configuration_keys=None
    )

    def configured(side: Side) -> dict[str, str]:
        request = DescribeConfigsRequest(resources=[resource])
        [found] = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        return {each.name: each.value for each in found.configs if each.config_source == 1}

    compare.judge("the topic", *sides.each(configured))
