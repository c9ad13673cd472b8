"""A group's configuration: Kafka's 17 keys, most with a broker's key that gives the default, and
one of Kafka to come.

A group need not exist to be configured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyk.config.keys import Config, Key, boolean, int32, string
from pyk.config.rules import at_least, one_of
from pyk.config.values import Value

ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")

BY_DURATION: Final = "by_duration:"
_NUMBER: Final = r"([-+]?[0-9]{1,15})"
_DURATION: Final = (
    rf"(?ai)([-+]?)P(?=.)(?:{_NUMBER}D)?"
    rf"(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:([-+]?[0-9]{{1,15}}(?:[.,][0-9]{{0,9}})?)S)?)?"
)
"""Java's: days to seconds, each part with a sign of its own."""


def _start_of_share_partitions(value: Value) -> str | None:
    assert isinstance(value, str)
    if value in ("earliest", "latest"):
        return None
    if value.startswith(BY_DURATION):
        seconds = seconds_of(value.removeprefix(BY_DURATION))
        if seconds is not None and seconds >= 0:
            return None
    return "it must be earliest, latest, or by_duration: with a duration as in PnDTnHnMn.nS"


def _topic_for_letters(value: Value) -> str | None:
    assert isinstance(value, str)
    if re.fullmatch(r"(?!__|\.\.?$)[a-zA-Z0-9._-]{0,249}", value):
        return None
    return "it must be the name of a topic that is not internal, or empty"


def seconds_of(text: str) -> float | None:
    """How long a duration is, or None if it is none."""
    found = re.fullmatch(_DURATION, text)
    if found is None:
        return None
    days, hours, minutes = (int(part or 0) for part in found.groups()[1:4])
    seconds = float((found[5] or "0").replace(",", "."))
    sign = -1 if found[1] == "-" else 1
    return sign * (days * 86_400 + hours * 3600 + minutes * 60 + seconds)


class GroupConfig(Config):
    """Kafka's names with the dots as underscores. Milliseconds, as Kafka has them."""

    consumer_session_timeout_ms: int = int32(
        45_000,
        "How long a member of this consumer group may be silent before it is out.",
        rule=at_least(1),
        broker=("group.consumer.session.timeout.ms",),
    )
    consumer_heartbeat_interval_ms: int = int32(
        5000,
        "How often members of this consumer group are told to report.",
        rule=at_least(1),
        broker=("group.consumer.heartbeat.interval.ms",),
    )
    consumer_assignment_interval_ms: int = int32(
        1000,
        "How long this consumer group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        broker=("group.consumer.assignment.interval.ms",),
    )
    share_session_timeout_ms: int = int32(
        45_000,
        "How long a member of this share group may be silent before it is out.",
        rule=at_least(1),
        broker=("group.share.session.timeout.ms",),
    )
    share_heartbeat_interval_ms: int = int32(
        5000,
        "How often members of this share group are told to report.",
        rule=at_least(1),
        broker=("group.share.heartbeat.interval.ms",),
    )
    share_record_lock_duration_ms: int = int32(
        30_000,
        "How long a record is one member's alone.",
        rule=at_least(1000),
        broker=("group.share.record.lock.duration.ms",),
    )
    share_delivery_count_limit: int = int32(
        5,
        "How many times a record is offered to this share group.",
        rule=at_least(2),
        broker=("group.share.delivery.count.limit",),
    )
    share_partition_max_record_locks: int = int32(
        2000,
        "How many records of a partition may be locked for this share group.",
        rule=at_least(100),
        broker=("group.share.partition.max.record.locks",),
    )
    share_auto_offset_reset: str = string(
        "latest",
        "Where this share group begins to read a partition: earliest, latest, or by_duration: and "
        "how far back from now, as in by_duration:PT1H.",
        rule=_start_of_share_partitions,
    )
    share_isolation_level: str = string(
        "read_uncommitted",
        "Whether this share group gets records of transactions that are not committed.",
        rule=one_of(*ISOLATION_LEVELS),
    )
    share_renew_acknowledge_enable: bool = boolean(
        True, "Whether members of this share group may ask for more time with a record."
    )
    errors_deadletterqueue_topic_name: str = string(
        "",
        "The topic for records that this share group rejects or was offered too often. They go "
        "nowhere if it is empty.",
        rule=_topic_for_letters,
    )
    share_assignment_interval_ms: int = int32(
        1000,
        "How long this share group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        broker=("group.share.assignment.interval.ms",),
    )
    streams_session_timeout_ms: int = int32(
        45_000,
        "How long a member of this streams group may be silent before it is out.",
        rule=at_least(1),
        broker=("group.streams.session.timeout.ms",),
    )
    streams_heartbeat_interval_ms: int = int32(
        5000,
        "How often members of this streams group are told to report.",
        rule=at_least(1),
        broker=("group.streams.heartbeat.interval.ms",),
    )
    streams_num_standby_replicas: int = int32(
        0,
        "How many standby copies each task of this streams group has.",
        rule=at_least(0),
        broker=("group.streams.num.standby.replicas",),
    )
    streams_initial_rebalance_delay_ms: int = int32(
        3000,
        "How long this streams group waits for more members before its first rebalance.",
        rule=at_least(0),
        broker=("group.streams.initial.rebalance.delay.ms",),
    )
    streams_assignment_interval_ms: int = int32(
        1000,
        "How long this streams group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        broker=("group.streams.assignment.interval.ms",),
    )


GROUP_KEYS: Final[Mapping[str, Key]] = GroupConfig.KEYS
