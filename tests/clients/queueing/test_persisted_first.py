"""A member is handed records when that is persisted, and can acknowledge them from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pyk.coordinator.internal_topics import SHARE_TOPIC
from pyk.testing import ThreadBroker, serve_in_thread
from pyk.wire.apis import ApiKey
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.write_share_group_state import (
    PartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from pyk.wire.records import Record, build_batch
from tests.clients.queueing.group import set_terms
from tests.clients.queueing.member import Got, Member, Partition, Refused, Said
from tests.clients.raw import RawClient

TOPIC, GROUP = "jobs", "workers"
ROUNDS = 20
TOGETHER = 500
"""Writes in one request, which is handled in one turn."""
WAIT_MS = 30_000


@contextmanager
def joined(broker: ThreadBroker) -> Iterator[tuple[Member, RawClient]]:
    """A member that has its partition, and a client besides."""
    address = broker.bootstrap_servers
    set_terms(address, GROUP, {"share.auto.offset.reset": "earliest"})
    with Member(address, GROUP, TOPIC, "ann") as member, RawClient(address) as client:
        member.join()
        assert member.fetch(max_wait_ms=0) == ([], [])
        yield member, client


def handed_while_it_waits(member: Member, client: RawClient, said: Said | None = None) -> list[Got]:
    """What the member gets of one record that is written while it waits. Raise Refused."""
    member.ask_for([] if said is None else [said], max_wait_ms=WAIT_MS)
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"job")])
    data = [PartitionProduceData(index=0, records=batch)]
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=WAIT_MS, topic_data=[topic])
    answer = client.ask(ApiKey.PRODUCE, 9, request)
    assert answer.responses[0].partition_responses[0].error_code == 0
    got, _ = member.receive()
    return got or member.fetch(max_wait_ms=WAIT_MS)[0]


def write_state(client: RawClient, partition: Partition, times: int) -> None:
    """Let the log of the state be longer, and the state be as it is."""
    unchanged = PartitionData(
        partition=partition.number,
        state_epoch=-1,
        leader_epoch=-1,
        start_offset=-1,
        state_batches=[],
    )
    while times > 0:
        some = [unchanged] * min(times, TOGETHER)
        topic = WriteStateData(topic_id=partition.topic_id, partitions=some)
        request = WriteShareGroupStateRequest(group_id=GROUP, topics=[topic])
        answer = client.ask(ApiKey.WRITE_SHARE_GROUP_STATE, 1, request)
        assert {each.error_code for each in answer.results[0].partitions} == {0}
        times -= len(some)


@pytest.mark.parametrize("interval", [1, 2, 10_000])
@pytest.mark.parametrize("with_fetch", [False, True])
def test_what_is_handed_out_can_be_acknowledged_at_once_however_seldom_the_disk_is_waited_for(
    interval: int, with_fetch: bool
) -> None:
    config = {"log.flush.interval.messages": str(interval)}
    with serve_in_thread(config, topics=[TOPIC]) as broker, joined(broker) as (member, client):
        (partition,) = member.assigned
        write_state(client, partition, interval - ROUNDS + 1)
        said: Said | None = None
        for offset in range(ROUNDS):
            got = handed_while_it_waits(member, client, said)
            assert got == [Got(partition, offset, offset, 1)]
            said = Said(partition, offset, offset)
            if not with_fetch:
                member.acknowledge([said])
                said = None


def test_a_record_is_not_delivered_where_the_log_of_the_state_refuses_and_is_there_later() -> None:
    with serve_in_thread(topics=[TOPIC]) as broker, joined(broker) as (member, client):
        (partition,) = member.assigned
        assert handed_while_it_waits(member, client) == [Got(partition, 0, 0, 1)]
        with (
            broker.faults.fill_disk(SHARE_TOPIC),
            pytest.raises(Refused, match="COORDINATOR_NOT_AVAILABLE"),
        ):
            handed_while_it_waits(member, client)
        got, _ = member.fetch(max_wait_ms=WAIT_MS)
        assert got == [Got(partition, 1, 1, 1)]
        member.acknowledge([Said(partition, 0, 1)])


@pytest.mark.parametrize("by_fetch", [False, True])
def test_a_sync_that_ends_the_broker_is_no_success(by_fetch: bool) -> None:
    """Of the log of the state: nobody waits for that of the topic."""
    with serve_in_thread({"log.flush.interval.messages": "1"}) as broker:
        broker.create_topic(TOPIC, configs={"flush.messages": "10000"})
        with joined(broker) as (member, client):
            (partition,) = member.assigned
            assert handed_while_it_waits(member, client) == [Got(partition, 0, 0, 1)]
            ask: Callable[[], Any] = partial(member.acknowledge, [Said(partition, 0, 0)])
            if by_fetch:
                ask()
                ask = partial(handed_while_it_waits, member, client)
            with broker.faults.fail_sync(SHARE_TOPIC) as fault:
                with pytest.raises((EOFError, ConnectionError)):
                    ask()
                fault.wait()
        broker.restart()
