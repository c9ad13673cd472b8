"""Whatever API a test has refused, the client hears the error and the broker has no bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pyk.handlers.table import SERVED, served
from pyk.testing import ApiKey, ErrorCode, ThreadBroker, serve_in_thread
from pyk.types import Uuid
from pyk.wire.apis import api_name, request_type
from pyk.wire.fields import Field
from pyk.wire.message import layout
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.clients.raw import RawClient
from tests.wire.strategies import Pool, build

TOPIC = "orders"
SEED = bytes(range(2, 250))


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with serve_in_thread(topics={TOPIC: 2}) as broker:
        yield broker


@pytest.mark.parametrize("key", SERVED, ids=api_name)
def test_every_api_can_be_refused_in_every_version(key: ApiKey, broker: ThreadBroker) -> None:
    topic_id = broker._context.image.topics[TOPIC].topic_id
    declared = request_type(key)
    lowest, highest = served()[key]
    # Versions that are named for the sake of old clients have no messages.
    for version in range(max(lowest, layout(declared).versions.lowest), highest + 1):
        for seed in (b"", SEED, SEED[1:], SEED[2:]):
            request = build(declared, version, Pool(seed), overridden(topic_id))
            with (
                broker.faults.on(key).refuse("NOT_LEADER_OR_FOLLOWER") as fault,
                RawClient(broker.bootstrap_servers) as client,
                # What is drawn may be nothing that is answered.
                suppress(EOFError, ConnectionError),
            ):
                client.ask(key, version, request)
            assert fault.hits == 1
            broker.check()


def overridden(topic_id: Uuid) -> Any:
    """Requests are about a topic that there is, and are answered at once."""
    known = {"name": TOPIC, "topic": TOPIC, "topic_id": topic_id, "acks": 1, "max_wait_ms": 0}

    def override(field: Field, pool: Pool) -> Any:
        return known.get(field.name)

    return override


def test_a_partition_of_list_offsets_is_refused_and_the_other_is_not(broker: ThreadBroker) -> None:
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(2)]
    topic = ListOffsetsTopic(name=TOPIC, partitions=partitions)
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    with (
        broker.faults.on("ListOffsets", partition=1).refuse("NOT_LEADER_OR_FOLLOWER"),
        RawClient(broker.bootstrap_servers) as client,
    ):
        (answered,) = client.ask(ApiKey.LIST_OFFSETS, 7, request).topics
    codes = {each.partition_index: each.error_code for each in answered.partitions}
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    broker.check()
