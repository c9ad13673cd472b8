"""The figures of queues: how much is left to share groups, for how long, and what became of it.

Depth and age come from what the share coordinator keeps, unless a member is there and the leader
knows better: a queue that nobody works on is the one to hear of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.state import NOT_GIVEN, Summary
from pyk.errors import KafkaError
from pyk.handlers.context import Context
from pyk.metadata.image import Topic
from pyk.metrics import Family, Sample, counter, gauge, one
from pyk.replication.partition import Isolation, Partition
from pyk.sharing.delivery import Acknowledge
from pyk.sharing.reading import walk
from pyk.sharing.tally import Tally
from pyk.turns import Work
from pyk.types import TopicPartition
from pyk.wire.compression import CorruptBatch

ACKNOWLEDGED: Final = {kind.value: kind.name.lower() for kind in Acknowledge}
HEADER_READ_BYTES: Final = 1


class Queue(NamedTuple):
    """What one group has of one partition."""

    labels: dict[str, str]
    partition: Partition
    start: int
    complete: int
    """How many offsets after the start are done."""
    in_flight: int

    @property
    def depth(self) -> int:
        log = self.partition.log
        return max(log.high_watermark - max(self.start, log.start_offset) - self.complete, 0)

    def age(self, now_ms: int) -> float | None:
        """Of the record that it begins with, by the batch that it is in: only its header is read.
        0 if there is none, None if it cannot be read."""
        log = self.partition.log
        start = max(self.start, log.start_offset)
        if start >= log.high_watermark:
            return 0.0
        try:
            piece, _ = self.partition.read(start, HEADER_READ_BYTES, Isolation.READ_UNCOMMITTED)
            if piece is None:
                return 0.0
            _, header = next(walk(piece.records))
        except (KafkaError, CorruptBatch, OSError):
            return None
        return max(now_ms - header.base_timestamp, 0) / 1000


def queue_families(context: Context) -> Iterator[Family]:
    queues: list[Queue] = []

    def depths() -> Iterator[Sample | None]:
        for each in find_queues(context):
            if each is not None:
                queues.append(each)
            yield each and Sample(each.labels, each.depth)

    yield gauge("pyk_queue_depth", "Offsets that a share group is not done with.", depths())
    in_flight = (Sample(each.labels, each.in_flight) for each in queues)
    yield gauge("pyk_queue_in_flight", "Records that its members have at the moment.", in_flight)
    now_ms = context.now_ms()
    ages = (
        None if (age := each.age(now_ms)) is None else Sample(each.labels, age) for each in queues
    )
    yield gauge(
        "pyk_queue_oldest_seconds", "Age of the oldest record that it is not done with.", ages
    )
    yield from count_families(context)
    shares = context.shares_led
    sessions = one(0 if shares is None else len(shares.sessions))
    yield gauge("pyk_share_sessions", "Share sessions of members.", sessions)


def count_families(context: Context) -> Iterator[Family]:
    shares = context.shares_led

    tallies = {} if shares is None else shares.tallies

    def labelled() -> Iterator[tuple[dict[str, str], Tally] | None]:
        for key, tally in list(tallies.items()):
            labels = labels_of(context, key)
            yield None if labels is None else (labels, tally)

    def samples(value: Callable[[Tally], float]) -> Iterator[Sample | None]:
        return (each and Sample(each[0], value(each[1])) for each in labelled())

    def acknowledged() -> Iterator[Sample | None]:
        for each in labelled():
            yield None
            if each is not None:
                labels, tally = each
                for kind, count in sorted(tally.acknowledged.items()):
                    yield Sample({**labels, "type": ACKNOWLEDGED[kind]}, count)

    delivered = samples(lambda tally: tally.deliveries)
    yield counter("pyk_queue_deliveries_total", "Records handed to members.", delivered)
    again = samples(lambda tally: tally.redeliveries)
    yield counter("pyk_queue_redeliveries_total", "Of those, not for the first time.", again)
    said = acknowledged()
    yield counter("pyk_queue_acknowledged_total", "What members said of records.", said)
    dead = samples(lambda tally: tally.dead_letters)
    yield counter("pyk_queue_dead_letters_total", "Records given up and kept aside.", dead)
    lost = samples(lambda tally: tally.dead_letters_lost)
    yield counter("pyk_queue_dead_letters_lost_total", "Given up, and could not be kept.", lost)


def closed_logs(context: Context) -> Work[list[tuple[Topic, int]]]:
    """Partitions of queues whose logs are not open."""
    found: dict[TopicPartition, Topic] = {}
    coordinator = context.coordinator_of_shares
    for shard in () if coordinator is None else coordinator.shards:
        for key in list(shard.machine) if shard.is_loaded else ():
            topic = context.image.topic_by_id(key.topic_id)
            if topic is not None:
                partition = TopicPartition(topic.name, key.partition)
                if context.directory.is_dormant(partition):
                    found[partition] = topic
            yield
    return [(topic, partition.partition) for partition, topic in found.items()]


def find_queues(context: Context) -> Iterator[Queue | None]:
    """Those of partitions that this broker leads, once somebody has fetched or said where to
    begin. None for each that is not."""
    coordinator = context.coordinator_of_shares
    if coordinator is None:
        return
    for shard in coordinator.shards:
        if shard.is_loaded:
            for key in list(shard.machine):
                state = shard.machine.get(key)
                yield None if state is None else _queue(context, key, state.summary)


def _queue(context: Context, key: SharePartitionKey, kept: Summary) -> Queue | None:
    topic, labels = context.image.topic_by_id(key.topic_id), labels_of(context, key)
    if topic is None or labels is None:
        return None
    try:
        # Those that are not open yet are for the next time.
        partition = context.replicas.leader_of_used(topic, key.partition, [])
    except KafkaError:
        return None
    if partition is None:
        return None
    shares = context.shares_led
    share = None if shares is None else shares.find(key)
    machine = None if share is None or share.failure is not None else share.machine
    if machine is not None:
        complete, held = machine.delivery_complete_count, machine.acquired
        return Queue(labels, partition, machine.start_offset, complete, held)
    if kept.start_offset == NOT_GIVEN:
        return None
    return Queue(labels, partition, kept.start_offset, max(kept.delivery_complete_count, 0), 0)


def labels_of(context: Context, key: SharePartitionKey) -> dict[str, str] | None:
    """None if the topic is gone."""
    topic = context.image.topic_by_id(key.topic_id)
    if topic is None:
        return None
    return {"group": key.group_id, "topic": topic.name, "partition": str(key.partition)}
