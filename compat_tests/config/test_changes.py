"""The same changes sent to Kafka and decided by pyk: the same code, and the same values after.

What differs is listed with its reason, and must differ still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import pytest

from compat_tests.config.answers import (
    BROKER,
    TOPIC,
    Answer,
    altered,
    created,
    ours,
    replaced,
    settled,
    theirs,
)
from compat_tests.config.conftest import Running
from compat_tests.config.test_definitions import DIFFERENCES as UNLIKE
from pyk.config.changes import Change, Operation
from pyk.config.description import describe_broker, describe_topic
from pyk.config.others import OTHER_NAMES
from pyk.config.settings import BrokerSettings
from pyk.errors import ErrorCode, KafkaError
from tests.config.changed import (
    alter_broker,
    alter_cluster_defaults,
    alter_topic,
    create_topic,
    replace_topic,
)

SET, DELETE, APPEND, SUBTRACT = Operation
POLICY, RETENTION, THROTTLED = (
    "cleanup.policy",
    "retention.ms",
    "leader.replication.throttled.replicas",
)
NAMES = (f"changed-{number}" for number in count())


class Case(NamedTuple):
    before: Mapping[str, str]
    changes: Sequence[Change]


def case(*changes: tuple[str, int, str | None], **before: str) -> Case:
    texts = {name.replace("_", "."): value for name, value in before.items()}
    return Case(texts, [Change(*change) for change in changes])


def setting(name: str, *values: str) -> dict[str, Case]:
    return {f"{name}={value!r}": case((name, SET, value)) for value in values}


LISTS = {
    "append to the default": case((POLICY, APPEND, "delete")),
    "append what is there": case((POLICY, APPEND, "compact"), cleanup_policy="compact"),
    "append two": case((POLICY, APPEND, "compact,delete"), cleanup_policy=""),
    "append nothing": case((POLICY, APPEND, "")),
    "append nonsense": case((POLICY, APPEND, "nonsense")),
    "subtract one": case((POLICY, SUBTRACT, "compact"), cleanup_policy="compact,delete"),
    "subtract the last": case((POLICY, SUBTRACT, "delete"), cleanup_policy="delete"),
    "subtract what is not there": case((POLICY, SUBTRACT, "compact"), cleanup_policy="delete"),
    "subtract from the default": case((POLICY, SUBTRACT, "delete")),
    "subtract what was written twice": case(
        (POLICY, SUBTRACT, "delete"), cleanup_policy="delete,delete"
    ),
    "append after a blank": case((THROTTLED, APPEND, "1:1"), cleanup_policy="compact, delete"),
    "append to what is no list": case((RETENTION, APPEND, "5")),
    "subtract from what is no list": case((RETENTION, SUBTRACT, "5")),
    "append to what is unknown": case(("nonsense", APPEND, "5")),
    "append null": case((POLICY, APPEND, None)),
    "subtract null": case((POLICY, SUBTRACT, None)),
}
REQUESTS = {
    "nothing": case(),
    "several": case((RETENTION, SET, "5"), (POLICY, SET, "compact"), ("segment.ms", DELETE, None)),
    "delete": case((RETENTION, DELETE, None), retention_ms="5"),
    "delete with a value": case((RETENTION, DELETE, "7"), retention_ms="5"),
    "delete what is not set": case((RETENTION, DELETE, None)),
    "delete what is unknown": case(("nonsense", DELETE, None)),
    "set null": case((RETENTION, SET, None)),
    "the same twice": case((RETENTION, SET, "5"), (RETENTION, SET, "5")),
    "set and delete": case((RETENTION, SET, "5"), (RETENTION, DELETE, None)),
    "twice and null": case((RETENTION, SET, None), (RETENTION, SET, "5")),
    "unknown": case(("nonsense", SET, "5")),
    "of a broker": case(("log.retention.ms", SET, "5")),
    "one bad of two": case((RETENTION, SET, "5"), ("segment.ms", SET, "x"), retention_ms="9"),
    "lags that exclude each other": case(
        ("min.compaction.lag.ms", SET, "10"), max_compaction_lag_ms="5"
    ),
    "remote storage": case(("remote.storage.enable", SET, "true")),
    "no remote storage": case(("remote.storage.enable", SET, "false")),
}
VALUES = {
    **setting(RETENTION, "-1", "-2", "+7", " 5 ", "5.0", "", "0x10", "1_000", "--1", "٣", "\xa05"),
    **setting(RETENTION, "9223372036854775807", "9223372036854775808", "-0", "1" * 5000),
    **setting("segment.bytes", "1048576", "1048575", "2147483647", "2147483648"),
    **setting("preallocate", "TRUE", " false ", "yes", "1", ""),
    **setting("min.cleanable.dirty.ratio", "0", "1", "1.1", "-0.0", "NaN", "Infinity", ".5", "5."),
    **setting("min.cleanable.dirty.ratio", "0x1p-1", "0.5d", "1e-9", "1e", "0.00123", "0.5fd", ""),
    **setting("compression.type", "gzip", "GZIP", "none", "uncompressed", " lz4 "),
    **setting("compression.gzip.level", "-1", "0", "1", "9", "10"),
    **setting("compression.lz4.level", "0", "17", "18"),
    **setting("compression.zstd.level", "-131072", "-131073", "22", "23"),
    **setting("message.timestamp.type", "LogAppendTime", "logappendtime"),
    **setting(POLICY, "", "delete,delete", "compact , delete", "delete,", ",", "Delete", "none"),
    **setting(THROTTLED, "*", "", "0:1", "0:1, 1:2", "0", "a:b", "*,0:1", "-1:1", "0:1:2"),
    **setting("retention.bytes", "-5"),
    **setting("segment.ms", "0", "1"),
    **setting("min.insync.replicas", "0", "9"),
    **setting("flush.messages", "0", "1"),
    **setting("segment.index.bytes", "3", "4"),
    **setting("local.retention.ms", "-3", "-2", "-1"),
    **setting("max.compaction.lag.ms", "0", "1"),
    **setting("max.message.bytes", "-1", "0"),
    **setting("delete.retention.ms", "-1"),
    **setting("index.interval.bytes", "-1"),
}
CASES = LISTS | REQUESTS | VALUES

CREATIONS: dict[str, dict[str, str | None]] = {
    "good": {RETENTION: "5"},
    "unknown": {"nonsense": "5"},
    "bad": {RETENTION: "x"},
    "null": {RETENTION: None},
}
REPLACEMENTS: dict[str, list[tuple[str, str | None]]] = {
    "one": [(RETENTION, "7")],
    "none": [],
    "null": [(RETENTION, None)],
    "twice": [(RETENTION, "1"), (RETENTION, "2")],
    "unknown": [("nonsense", "1")],
    "bad": [(POLICY, "x")],
}


def code_of(decide: Callable[[], dict[str, str]]) -> ErrorCode:
    try:
        decide()
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.NONE


def after(before: dict[str, str], decide: Callable[[], dict[str, str]]) -> dict[str, str]:
    try:
        return decide()
    except KafkaError:
        return before


@pytest.mark.parametrize("name", CASES)
def test_a_topic_changes_as_in_kafka(name: str, kafka: Running) -> None:
    before, changes = CASES[name]
    topic = next(NAMES)
    assert created(kafka.address, topic, before) is ErrorCode.NONE

    def decide() -> dict[str, str]:
        return alter_topic(before, changes, kafka.settings)

    assert altered(kafka.address, TOPIC, topic, changes) is code_of(decide)
    wanted = ours(describe_topic(kafka.settings, after(dict(before), decide)))
    assert settled(lambda: theirs(kafka.address, TOPIC, topic), wanted) == wanted


@pytest.mark.parametrize("name", CREATIONS)
def test_a_topic_is_created_as_in_kafka(name: str, kafka: Running) -> None:
    configs = CREATIONS[name]
    code = code_of(lambda: create_topic(configs.items(), kafka.settings))
    assert created(kafka.address, next(NAMES), configs) is code


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_topics_configuration_is_replaced_as_in_kafka(name: str, kafka: Running) -> None:
    before, configs = {RETENTION: "5", POLICY: "compact"}, REPLACEMENTS[name]
    topic = next(NAMES)
    assert created(kafka.address, topic, before) is ErrorCode.NONE

    def decide() -> dict[str, str]:
        return replace_topic(configs, kafka.settings)

    assert replaced(kafka.address, TOPIC, topic, configs) is code_of(decide)
    wanted = ours(describe_topic(kafka.settings, after(dict(before), decide)))
    assert settled(lambda: theirs(kafka.address, TOPIC, topic), wanted) == wanted


BROKER_CASES = {
    "a value": case(("log.retention.ms", SET, "2000")),
    "with blanks": case(("background.threads", SET, " 11 ")),
    "a list": case(("log.cleanup.policy", SET, "delete")),
    "append to a list": case(("log.cleanup.policy", APPEND, "compact")),
    "a rate": case(("leader.replication.throttled.rate", SET, "5")),
    "a bad rate": case(("leader.replication.throttled.rate", SET, "x")),
    "unknown": case(("nonsense", SET, "5")),
    "append to what is unknown": case(("nonsense", APPEND, "5")),
    "append to what is no list": case(("num.io.threads", APPEND, "5")),
    "append to what is fixed": case(("num.partitions", APPEND, "5")),
    "fixed": case(("num.partitions", SET, "5")),
    "delete what is fixed": case(("num.partitions", DELETE, None)),
    "advertised": case(("advertised.listeners", SET, "PLAINTEXT://localhost:1")),
    "too low": case(("num.io.threads", SET, "0")),
    "no number": case(("num.io.threads", SET, "x")),
    "no codec": case(("compression.type", SET, "x")),
    "null": case(("num.io.threads", SET, None)),
    "twice": case(("num.io.threads", SET, "9"), ("num.io.threads", SET, "9")),
    "by listener only": case(("ssl.keystore.location", SET, "x")),
    "no time": case(("log.roll.ms", SET, "0")),
    "no retention": case(("log.retention.ms", SET, "0")),
    "less than for ever": case(("log.retention.ms", SET, "-2")),
    "a small segment": case(("log.segment.bytes", SET, "5")),
    "hours": case(("log.retention.hours", SET, "5")),
    "flush": case(("log.flush.interval.ms", SET, "7")),
}
ONE_BROKER = {
    "no listener": case(("listeners", SET, "nonsense")),
    "no map": case(("listener.security.protocol.map", SET, "nonsense")),
}
ALL_BROKERS = {
    "listeners": case(("listeners", SET, "PLAINTEXT://:9092")),
    "lags that exclude each other": case(
        ("log.cleaner.min.compaction.lag.ms", SET, "10"),
        ("log.cleaner.max.compaction.lag.ms", SET, "5"),
    ),
}
LEVELS = [
    *(("1", name) for name in BROKER_CASES | ONE_BROKER),
    *(("", name) for name in BROKER_CASES | ALL_BROKERS),
]


def seen(kafka: Running, wanted: Mapping[str, Answer]) -> dict[str, Answer]:
    found = theirs(kafka.address, BROKER, "1")
    return {name: found[name] for name in wanted if name in found}


def wanted_of(settings: BrokerSettings) -> dict[str, Answer]:
    """What is compared: pyk does not know the types of what it has no use for."""
    passed_over = OTHER_NAMES | set(UNLIKE)
    found = ours(describe_broker(settings))
    return {name: answer for name, answer in found.items() if name not in passed_over}


@pytest.mark.parametrize(("broker", "name"), LEVELS)
def test_a_broker_changes_as_in_kafka(broker: str, name: str, kafka: Running) -> None:
    changes = (BROKER_CASES | ONE_BROKER | ALL_BROKERS)[name].changes
    settings = kafka.settings

    def decide() -> dict[str, str]:
        return (alter_broker if broker else alter_cluster_defaults)(changes, settings)

    code = code_of(decide)
    assert altered(kafka.address, BROKER, broker, changes) is code
    if code is not ErrorCode.NONE:
        return
    layer = decide()
    now = settings.changed(per_broker=layer) if broker else settings.changed(cluster_wide=layer)
    wanted = wanted_of(now)
    assert settled(lambda: seen(kafka, wanted), wanted) == wanted
    topic = ours(describe_topic(now, {}))
    assert settled(lambda: theirs(kafka.address, TOPIC, "bystander"), topic) == topic
    undone = [Change(change.name, DELETE, None) for change in changes]
    assert altered(kafka.address, BROKER, broker, undone) is ErrorCode.NONE
    wanted = wanted_of(settings)
    assert settled(lambda: seen(kafka, wanted), wanted) == wanted


class Difference(NamedTuple):
    kind: int
    resource: str
    change: Change
    theirs: ErrorCode
    ours: ErrorCode


DIFFERENCES = {
    "Kafka fails on an operation that does not exist": Difference(
        TOPIC,
        "bystander",
        Change(RETENTION, 4, "5"),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_REQUEST,
    ),
    "Kafka has a key for its own tests": Difference(
        TOPIC,
        "bystander",
        Change("internal.segment.bytes", SET, "1048576"),
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
    ),
    "Kafka has threads, and halves or doubles them at most": Difference(
        BROKER,
        "1",
        Change("num.io.threads", SET, "100"),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "Kafka keeps its eligible leader replicas from changes (KIP-966)": Difference(
        BROKER,
        "1",
        Change("min.insync.replicas", SET, "1"),
        ErrorCode.INVALID_CONFIG,
        ErrorCode.NONE,
    ),
    "pyk refuses what it has no use for": Difference(
        BROKER,
        "1",
        Change("remote.fetch.max.wait.ms", SET, "500"),
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_listed_differences_are_still_there(name: str, kafka: Running) -> None:
    kind, resource, change, their_code, our_code = DIFFERENCES[name]

    def decide() -> dict[str, str]:
        if kind == TOPIC:
            return alter_topic({}, [change], kafka.settings)
        return alter_broker([change], kafka.settings)

    assert altered(kafka.address, kind, resource, [change]) is their_code
    assert code_of(decide) is our_code
    assert their_code is not our_code
    if their_code is ErrorCode.NONE:
        undone = [Change(change.name, DELETE, None)]
        assert altered(kafka.address, kind, resource, undone) is ErrorCode.NONE
