"""What is told of a transaction: by its coordinator, and by the partitions that it writes to."""

from __future__ import annotations

from pyk.cli.output import Field, Row
from pyk.cli.records import moment
from pyk.client.producers import Producer
from pyk.client.transactions import Listed, Transaction

TRANSACTIONAL_ID = Field("transactional_id", "its transactional.id")
PRODUCER = (
    Field("producer_id", "of whoever writes"),
    Field("producer_epoch", "how often the id was taken over, or, since v2, used"),
)
PLACE = (Field("topic", "its name"), Field("partition", "its number"))
MESSAGE = Field("message", "what it means, or why it was refused")

LISTED = (
    TRANSACTIONAL_ID,
    Field("coordinator", "the broker that looks after it"),
    Field("producer_id", "of whoever writes"),
    Field("state", "such as Ongoing, or Empty if there was none yet"),
)
DESCRIBED = (
    TRANSACTIONAL_ID,
    Field("state", "such as Ongoing, or Empty if there was none yet"),
    Field("coordinator", "the broker that looks after it"),
    *PRODUCER,
    Field("timeout_ms", "when it has been open for so long it is aborted"),
    Field("started", "when it began; null if there was none"),
    Field("duration_ms", "how long it has been open; null if it is not"),
)
PRODUCERS = (
    *PLACE,
    *PRODUCER,
    Field("last_sequence", "of its last record; null if it has written none since its epoch began"),
    Field("last_timestamp", "of its last record or marker"),
    Field("coordinator_epoch", "of its last marker; null if there was none", is_wide=True),
    Field("start_offset", "where its open transaction begins; null if none is"),
)
HANGING = (
    *PLACE,
    *PRODUCER,
    Field("start_offset", "where it begins: readers of committed records stop there"),
    Field("last_timestamp", "of its last record"),
    Field("duration_ms", "how long ago that was"),
    Field("coordinator_epoch", "of the producer's last marker", is_wide=True),
)
ABORTED = (
    *PLACE,
    *PRODUCER,
    Field("start_offset", "where it begins"),
    Field("status", "PLANNED, OK when it is done, NOT_HANGING, or the error's name"),
    MESSAGE,
)
TERMINATED = (
    TRANSACTIONAL_ID,
    Field("state", "what it was in"),
    *PRODUCER,
    Field("status", "PLANNED, OK when it is done, or the error's name"),
    MESSAGE,
)


def listed(found: Listed) -> Row:
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator,
        "producer_id": found.producer_id,
        "state": found.state,
    }


def described(found: Transaction, now_ms: int) -> Row:
    started_ms = found.started_ms
    is_running = found.is_open and started_ms is not None
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "coordinator": found.coordinator,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started": None if started_ms is None else moment(started_ms),
        "duration_ms": now_ms - (started_ms or 0) if is_running else None,
        "partitions": [each._asdict() for each in found.partitions],
    }


def described_producer(found: Producer) -> Row:
    return {
        **found.partition._asdict(),
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "last_sequence": found.last_sequence,
        "last_timestamp": moment(found.last_timestamp) if found.last_timestamp >= 0 else None,
        "coordinator_epoch": found.coordinator_epoch,
        "start_offset": found.start_offset,
    }


def described_hanging(found: Producer, now_ms: int) -> Row:
    return {**described_producer(found), "duration_ms": now_ms - found.last_timestamp}
