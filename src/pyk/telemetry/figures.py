"""The figures of a broker, gathered from its parts when somebody asks.

Where there may be many, they are looked for while they are written (see `scrape`), and what they
are looked for in may change meanwhile: hence the lists, which are copies.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

import pyk
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.context import Context
from pyk.handlers.describe_log_dirs import space_of
from pyk.metrics import Family, Histogram, Sample, counter, gauge, histogram, measured, one
from pyk.replication.partition import Partition
from pyk.replication.readers import Reading
from pyk.server.listeners import Server
from pyk.server.traffic import Traffic
from pyk.telemetry.loop import LoopWatch
from pyk.telemetry.process import process_families, python_families
from pyk.telemetry.queues import closed_logs, queue_families
from pyk.turns import in_turns
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey, api_name

if TYPE_CHECKING:
    from pyk.coordinator.groups import Groups

logger = logging.getLogger(__name__)

API_NAMES: Final = {key: api_name(key) for key in ApiKey}


class Committed(NamedTuple):
    """An offset of a group."""

    group: str
    topic: str
    number: int
    offset: int

    @property
    def labels(self) -> dict[str, str]:
        return {"group": self.group, "topic": self.topic, "partition": str(self.number)}


class Figures(Struct, frozen=True, kw_only=True):
    """Where they come from."""

    context: Context
    server: Server
    traffic: Mapping[ApiKey, Traffic]
    loop: LoopWatch = field(default_factory=LoopWatch)

    failures: Counter[str] = field(default_factory=Counter)
    """How often figures could not be had, by what they are of."""

    def families(self) -> Iterator[Family]:
        context = self.context
        for subject, families in (
            ("the broker", self._own_families()),
            ("requests", request_families(self.traffic)),
            ("connections", server_families(self.server)),
            ("the cluster", cluster_families(context)),
            ("partitions", partition_families(context)),
            ("readers", reader_families(context)),
            ("groups", group_families(context)),
            ("queues", queue_families(context)),
            ("transactions", transaction_families(context)),
            ("the process", process_families()),
            ("python", python_families(self.loop.garbage)),
        ):
            try:
                yield from families
            except Exception:
                self.note_failure(subject)
        failures = [Sample({"figures": name}, count) for name, count in self.failures.items()]
        yield counter("pyk_metrics_failures_total", "Figures that could not be had.", failures)

    async def open_logs(self) -> None:
        """Have logs opened that figures are of, in threads: what is written then opens none."""
        try:
            closed = await in_turns(closed_logs(self.context))
            if closed:
                await self.context.ensure_logs_in_time(closed)
        except Exception:
            self.note_failure("queues")

    def note_failure(self, subject: str) -> None:
        """Called where the exception is caught."""
        if not self.failures[subject]:
            logger.exception("the figures of %s cannot be had; this is not said again", subject)
        self.failures[subject] += 1

    def _own_families(self) -> Iterator[Family]:
        labels = {
            "version": pyk.__version__,
            "node_id": str(self.context.node_id),
            "cluster_id": self.context.image.cluster_id or "",
        }
        yield gauge("pyk_info", "The broker.", [Sample(labels, 1)])
        loop = self.loop
        delay = one(loop.delay)
        yield histogram("pyk_event_loop_delay_seconds", "How late the event loop is.", delay)
        times = [Sample({"by": who}, count) for who, count in loop.held.items()]
        yield counter("pyk_event_loop_held_total", "How often it was late by 0.1 s.", times)
        held = [Sample({"by": who}, found / 1e9) for who, found in loop.held_nanoseconds.items()]
        yield counter("pyk_event_loop_held_seconds_total", "For how long, in all.", held)


def request_families(traffic: Mapping[ApiKey, Traffic]) -> Iterator[Family]:
    def samples(value: Callable[[Traffic], float | Histogram]) -> list[Sample]:
        return [Sample({"api": API_NAMES[key]}, value(found)) for key, found in traffic.items()]

    requests = samples(lambda found: found.requests)
    yield counter("pyk_requests_total", "Requests that were handled.", requests)
    received = samples(lambda found: found.request_bytes)
    yield counter("pyk_request_bytes_total", "Bytes of requests.", received)
    sent = samples(lambda found: found.answer_bytes)
    yield counter("pyk_response_bytes_total", "Bytes of answers.", sent)
    took = samples(lambda found: found.took)
    yield histogram("pyk_request_seconds", "From a request that is complete to its answer.", took)
    waited = samples(lambda found: found.waited_nanoseconds / 1e9)
    yield counter(
        "pyk_request_wait_seconds_total",
        "Of that, waiting for records, replicas or the disk.",
        waited,
    )
    errors = [
        Sample({"api": API_NAMES[key], "error": _error_name(code)}, count)
        for key, found in traffic.items()
        for code, count in found.errors.items()
    ]
    yield counter("pyk_errors_total", "Error codes in answers, each partition's counted.", errors)


def server_families(server: Server) -> Iterator[Family]:
    by_listener = Counter({address.listener: 0 for address in server.addresses})
    by_listener.update(connection.peer.listener for connection in server.connections)
    connections = [Sample({"listener": name}, count) for name, count in by_listener.items()]
    yield gauge("pyk_connections", "Open connections.", connections)
    yield counter(
        "pyk_connections_accepted_total", "Connections ever accepted.", one(server.accepted)
    )
    yield counter(
        "pyk_connections_refused_total", "Connections beyond a limit.", one(server.refused)
    )
    held = one(server.memory.held)
    yield gauge("pyk_buffered_request_bytes", "Large requests in memory.", held)


def cluster_families(context: Context) -> Iterator[Family]:
    topics = context.image.topics
    yield gauge("pyk_topics", "Topics of the cluster.", one(len(topics)))
    partitions = sum(len(topic.partitions) for topic in topics.values())
    yield gauge("pyk_partitions", "Partitions of the cluster.", one(partitions))
    failed = one(len(context.directory.failed))
    yield gauge("pyk_logs_failed", "Logs that are damaged and not served.", failed)
    open_logs = one(len(context.directory.logs))
    yield gauge("pyk_logs_open", "Logs that are not dormant.", open_logs)
    sessions = one(len(context.fetch_sessions))
    yield gauge("pyk_fetch_sessions", "Fetch sessions of consumers.", sessions)
    contained = one(context.failures.count)
    yield counter("pyk_failures_total", "Failures that went no further.", contained)
    revision = one(context.image.revision)
    yield gauge("pyk_metadata_revision", "The revision of the metadata.", revision)
    path = context.directory.path
    labels = {"path": str(path)}
    total = (Sample(labels, space_of(each).total_bytes) for each in [path])
    yield gauge("pyk_disk_total_bytes", "Size of the file system.", total)
    usable = (Sample(labels, space_of(each).usable_bytes) for each in [path])
    yield gauge("pyk_disk_usable_bytes", "Space that is left on it.", usable)


def partition_families(context: Context) -> Iterator[Family]:
    """Of those that were used since the start."""
    led = list(context.replicas)

    def samples(value: Callable[[Partition], float]) -> Iterator[Sample]:
        return (Sample(_labels_of(each), value(each)) for each in led)

    size = samples(lambda each: each.log.size)
    yield gauge("pyk_partition_log_bytes", "Size of the log.", size)
    start = samples(lambda each: each.log.start_offset)
    yield gauge("pyk_partition_log_start_offset", "The first offset.", start)
    end = samples(lambda each: each.log.end_offset)
    yield gauge("pyk_partition_log_end_offset", "The offset after the last.", end)
    committed = samples(lambda each: each.log.high_watermark)
    yield gauge("pyk_partition_high_watermark", "What is before it is committed.", committed)
    stable = samples(lambda each: each.log.last_stable_offset)
    yield gauge("pyk_partition_last_stable_offset", "Before it no transaction is open.", stable)
    received = samples(lambda each: each.bytes_in)
    yield counter("pyk_partition_bytes_in_total", "Bytes of batches appended.", received)
    records = samples(lambda each: each.records_in)
    yield counter("pyk_partition_records_in_total", "Records appended.", records)
    sent = samples(lambda each: each.bytes_out)
    yield counter("pyk_partition_bytes_out_total", "Bytes of batches sent to readers.", sent)


def reader_families(context: Context) -> Iterator[Family]:
    """Whoever has fetched lately, in a group or not: Spark's executors commit nothing."""
    now_ms, led = context.now_ms(), list(context.replicas)

    def samples(value: Callable[[Partition, Reading], float]) -> Iterator[Sample | None]:
        for each in led:
            yield None
            for client_id, reading in each.readers.recent(now_ms):
                yield Sample({"client_id": client_id, **_labels_of(each)}, value(each, reading))

    offsets = samples(lambda _, reading: reading.offset)
    yield gauge("pyk_reader_offset", "The offset after what a client was sent last.", offsets)
    lags = samples(lambda each, reading: max(each.log.high_watermark - reading.offset, 0))
    yield gauge("pyk_reader_lag", "How many offsets are committed after that.", lags)
    records = samples(lambda _, reading: reading.records)
    yield counter("pyk_reader_offsets_total", "How far a client has come, in offsets.", records)


def group_families(context: Context) -> Iterator[Family]:
    shards = [each.machine for each in context.group_shards or () if each.is_loaded]

    def states() -> Iterator[Sample | None]:
        counts: Counter[tuple[str, str]] = Counter()
        for shard in shards:
            for group in list(shard):
                counts[group.type.value, group.state] += 1
                yield None
        for (kind, state), count in counts.items():
            yield Sample({"type": kind, "state": state}, count)

    yield gauge("pyk_groups", "Groups that this broker coordinates.", states())
    members = (
        Sample({"group": group.group_id}, len(group.members))
        for shard in shards
        for group in list(shard)
    )
    yield gauge("pyk_group_members", "Members of a group.", members)
    rebalances = sum(shard.rebalances for shard in shards)
    yield counter(
        "pyk_group_rebalances_total",
        "How many times work was shared out anew, in all groups.",
        one(rebalances),
    )
    offsets = (
        each if each is None else Sample(each.labels, each.offset) for each in _committed(shards)
    )
    yield gauge("pyk_group_offset", "What a group has committed.", offsets)
    lags = (each and _lag(context, each) for each in _committed(shards))
    yield gauge("pyk_group_lag", "How many offsets are committed after that.", lags)


def _committed(shards: Sequence[Groups]) -> Iterator[Committed | None]:
    for shard in shards:
        for group in list(shard):
            yield None
            for topic, partitions in list(shard.offsets.of(group.group_id).items()):
                for number, value in list(partitions.items()):
                    yield Committed(group.group_id, topic, number, value.offset)


def transaction_families(context: Context) -> Iterator[Family]:
    coordinator = context.transaction_coordinator
    shards = [] if coordinator is None else [each for each in coordinator.shards if each.is_loaded]
    machines = [shard.machine for shard in shards]
    now_ms = oldest_ms = context.now_ms()

    def states() -> Iterator[Sample | None]:
        nonlocal oldest_ms
        counts: Counter[str] = Counter()
        for machine in machines:
            for transaction in list(machine):
                counts[transaction.status.title] += 1
                if not transaction.status.is_at_rest:
                    oldest_ms = min(oldest_ms, transaction.started_ms)
                yield None
        for state, count in counts.items():
            yield Sample({"state": state}, count)

    yield gauge("pyk_transactions", "Transactional ids that this broker coordinates.", states())
    tallies = [machine.tally for machine in machines]
    started = one(sum(tally.started for tally in tallies))
    yield counter("pyk_transactions_started_total", "Transactions that began.", started)
    committed = one(sum(tally.committed for tally in tallies))
    yield counter("pyk_transactions_committed_total", "Those to be committed.", committed)
    aborted = one(sum(tally.aborted for tally in tallies))
    yield counter("pyk_transactions_aborted_total", "Those to be aborted.", aborted)
    timed_out = one(sum(tally.timed_out for tally in tallies))
    yield counter("pyk_transactions_timed_out_total", "Of those, whose time was up.", timed_out)
    age = measured(lambda: (now_ms - oldest_ms) / 1000)
    yield gauge("pyk_transaction_oldest_seconds", "Age of the oldest that is open.", age)
    outstanding = one(sum(machine.outstanding for machine in machines))
    yield gauge(
        "pyk_transaction_markers_outstanding",
        "Partitions that are to be told of an outcome.",
        outstanding,
    )


def _lag(context: Context, committed: Committed) -> Sample | None:
    """None if this broker cannot tell. What was deleted before it was read is not to be read. A
    log that is dormant stays so: where it ends is known, and it begins where it may."""
    topic = context.image.topics.get(committed.topic)
    if topic is None:
        return None
    partition = TopicPartition(committed.topic, committed.number)
    end = context.directory.dormant_end(partition)
    offset = committed.offset
    if end is None:
        try:
            led = context.replicas.leader_of_used(topic, committed.number, [])
        except KafkaError:
            return None
        if led is None:
            return None
        end, offset = led.log.high_watermark, max(offset, led.log.start_offset)
    return Sample(committed.labels, max(end - offset, 0))


def _labels_of(each: Partition) -> dict[str, str]:
    return {"topic": each.partition.topic, "partition": str(each.partition.partition)}


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
