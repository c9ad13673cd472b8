"""What is decided about a cluster's other possessions, and how decisions meet the store."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.controller import (
    Plan,
    allocate_producer_ids,
    initialise,
    new_uuid,
    register_broker,
    set_broker_config,
    set_broker_defaults,
    set_features,
    set_topic_config,
    unregister_broker,
)
from pyk.metadata.image import Broker, ClusterImage, Features, ProducerIds
from pyk.metadata.mirror import Mirror, open_mirror
from pyk.metadata.placement import place
from pyk.metadata.records import BrokerRecord, Listener, parsed, printed
from pyk.metadata.store import DeletePrefix, Put
from pyk.metadata.topics import CreatedTopic, NewTopic, TopicDefaults, create_topics
from tests.metadata.stores import embedded

HERE = BrokerRecord((Listener("PLAINTEXT", "localhost", 9092),))
RNG = Random(7)


async def create(mirror: Mirror, *names: str) -> list[bool]:
    topics = [NewTopic(name=name) for name in names]
    outcome = await mirror.carry_out(lambda i: create_topics(i, topics, TopicDefaults(), RNG))
    return [isinstance(created, CreatedTopic) for _, created in outcome]


async def test_a_cluster_is_begun_once() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        plan = {"metadata.version": 29}
        assert await mirror.carry_out(lambda i: initialise(i, "one", plan)) == "one"
        assert await mirror.carry_out(lambda i: initialise(i, "two", {})) == "one"
        assert mirror.image.cluster_id == "one"
        assert mirror.image.features == Features(plan, mirror.image.revision)
        await mirror.carry_out(lambda i: set_features(i, {"metadata.version": 30}))
        assert mirror.image.features == Features({"metadata.version": 30}, mirror.image.revision)


async def test_blocks_of_producer_ids_are_never_given_twice() -> None:
    blocks: list[range] = []
    async with embedded() as store, open_mirror(store) as mirror:

        async def allocate() -> None:
            blocks.append(await mirror.carry_out(allocate_producer_ids))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(allocate)
    assert sorted(block.start for block in blocks) == list(range(0, 10_000, 1_000))
    assert all(len(block) == 1_000 for block in blocks)


def test_producer_ids_end() -> None:
    image = ClusterImage(producer_ids=ProducerIds(2**63 - 1_000, 5))
    with pytest.raises(KafkaError, match="Exhausted"):
        allocate_producer_ids(image)


async def test_a_broker_has_a_new_epoch_each_time() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        first = mirror.image.brokers[1]
        assert first == Broker(1, mirror.image.revision, HERE.listeners, None, False)
        with pytest.raises(KafkaError) as caught:
            await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        assert caught.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await mirror.carry_out(lambda i: unregister_broker(i, 1))
        await mirror.carry_out(lambda i: unregister_broker(i, 1))
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        assert mirror.image.brokers[1].epoch > first.epoch


async def test_a_broker_goes_with_its_lease() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        lease = await store.grant_lease(60)
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE, lease))
        registered = mirror.image.revision
        await store.revoke_lease(lease)
        assert (await mirror.reach(registered + 1)).brokers == {}


async def test_configurations_are_set_as_a_whole() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        await create(mirror, "a")
        await mirror.carry_out(lambda i: set_topic_config(i, "a", {"x": "1", "y": "2"}))
        await mirror.carry_out(lambda i: set_topic_config(i, "a", {"x": "3"}))
        await mirror.carry_out(lambda i: set_broker_config(i, 1, {"b": "1"}))
        await mirror.carry_out(lambda i: set_broker_defaults(i, {"d": "1"}))
        image = mirror.image
        assert image.topic_config("a").values == {"x": "3"}
        assert image.broker_config(1).values == {"b": "1"}
        assert image.broker_defaults.values == {"d": "1"}
        await mirror.carry_out(lambda i: set_topic_config(i, "a", {}))
        await mirror.carry_out(lambda i: set_topic_config(i, "a", {}))
        assert mirror.image.configured.keys() == {"configs/brokers/1", "configs/broker-defaults"}


def test_what_is_not_there_cannot_be_configured() -> None:
    with pytest.raises(KafkaError, match="The topic 'a' does not exist") as caught:
        set_topic_config(ClusterImage(), "a", {})
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError, match="No broker with id 1 found") as caught:
        set_broker_config(ClusterImage(), 1, {})
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_what_was_done_is_in_the_image() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        made: list[bool] = []

        async def compete(number: int) -> None:
            made.extend(await create(mirror, "the_one", f"own{number}"))
            assert {"the_one", f"own{number}"} <= mirror.image.topics.keys()

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(compete, number)
    assert made.count(True) == 9, "each its own, and one of them the one"


async def test_names_that_collide_are_not_made_at_the_same_time() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        await mirror.carry_out(lambda i: register_broker(i, 1, HERE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, mirror, "a.b")
            nursery.start_soon(create, mirror, "a_b")
        assert len(mirror.image.topics) == 1


async def test_an_image_that_is_too_old_is_read_anew() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        await store.commit([], [Put("configs/broker-defaults", b'{"a":"1"}')])
        for number in range(5):
            await store.commit([], [Put("producer-ids", b'{"next_producer_id":%d}' % number)])
        await store.compact(6)
        last = (await store.commit([], [DeletePrefix("configs/")])).revision
        image = await mirror.reach(last)
        assert (image.producer_ids.next_producer_id, image.broker_defaults.values) == (4, {})


async def test_what_cannot_be_read_is_not_overwritten() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        revision = (await store.commit([], [Put("producer-ids", b"{}")])).revision
        await mirror.reach(revision)
        assert mirror.image.unreadable.keys() == {"producer-ids"}
        with pytest.raises(KafkaError, match="producer-ids") as caught:
            await mirror.carry_out(allocate_producer_ids)
        assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_plan_without_operations_is_not_committed() -> None:
    async with embedded() as store, open_mirror(store) as mirror:
        assert await mirror.carry_out(lambda image: Plan(image.revision)) == 0
        assert (await store.range("")).revision == 0


def test_ids_are_random_and_begin_with_no_dash() -> None:
    rng = Random(1)
    drawn = [new_uuid(rng) for _ in range(5_000)]
    assert len(set(drawn)) == 5_000
    assert not any(printed(uuid).startswith("-") for uuid in drawn)
    assert all(parsed(printed(uuid)) == uuid for uuid in drawn)
    assert {uuid[6] >> 4 for uuid in drawn} == {4}
    assert {printed(uuid)[0] for uuid in drawn} > set("AZaz09_")


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "+" * 22, "é" * 22])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no id|ASCII"):
        parsed(text)


def brokers(*racks: str | None, fenced: int = -1) -> list[Broker]:
    return [Broker(n, 1, (), rack, n == fenced) for n, rack in enumerate(racks)]


def test_leaders_go_round_and_followers_vary() -> None:
    placed = place(brokers(*[None] * 4), 12, 2, start=3)
    assert [replicas[0] for replicas in placed] == [3, 0, 1, 2] * 3
    assert len(set(placed)) == 12, "a pair of brokers shares two partitions"


def test_replicas_are_on_different_racks() -> None:
    racks = ["a", "a", "b", "b", "c", "c"]
    for factor, least in ((2, 2), (3, 3), (4, 3), (6, 3)):
        for replicas in place(brokers(*racks), 18, factor, start=0):
            assert len(set(replicas)) == factor
            assert len({racks[broker] for broker in replicas}) == least


def test_the_fenced_lead_nothing() -> None:
    for replicas in place(brokers(None, None, None, fenced=1), 9, 3, start=0):
        assert replicas[-1] == 1
