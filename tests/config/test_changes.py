"""Changes at run time: what comes out, and what is refused with which code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.config.broker import BROKER_KEYS
from pyk.config.changes import Change, Operation, replaced
from pyk.config.settings import BrokerSettings
from pyk.config.values import format_value
from pyk.errors import ErrorCode, KafkaError
from tests.config.changed import (
    alter_broker,
    alter_cluster_defaults,
    alter_topic,
    create_topic,
    replace_topic,
)

SET, DELETE, APPEND, SUBTRACT = Operation
SETTINGS = BrokerSettings()
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


def test_set_and_delete() -> None:
    before = {"retention.ms": "5", "segment.ms": "6"}
    changes = [Change("retention.ms", SET, "7"), Change("segment.ms", DELETE, None)]
    assert alter_topic(before, changes, SETTINGS) == {"retention.ms": "7"}
    assert before == {"retention.ms": "5", "segment.ms": "6"}


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        ({}, APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "compact"}, APPEND, "compact,delete", "compact,delete"),
        ({"cleanup.policy": ""}, APPEND, "compact", "compact"),
        ({}, SUBTRACT, "delete", ""),
        ({"cleanup.policy": "compact,delete"}, SUBTRACT, "compact", "delete"),
        ({"cleanup.policy": "compact"}, SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_grow_and_shrink(
    before: dict[str, str], operation: int, value: str, after: str
) -> None:
    change = Change("cleanup.policy", operation, value)
    assert alter_topic(before, [change], SETTINGS) == {"cleanup.policy": after}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change("retention.ms", SET, "x"), INVALID_CONFIG),
        (Change("retention.ms", SET, "-2"), INVALID_CONFIG),
        (Change("no.such.key", SET, "1"), INVALID_CONFIG),
        (Change("no.such.key", APPEND, "1"), INVALID_CONFIG),
        (Change("retention.ms", APPEND, "1"), INVALID_CONFIG),
        (Change("cleanup.policy", APPEND, "nonsense"), INVALID_CONFIG),
        (Change("cleanup.policy", APPEND, ""), INVALID_CONFIG),
        (Change("remote.storage.enable", SET, "true"), INVALID_CONFIG),
        (Change("retention.ms", SET, None), INVALID_REQUEST),
        (Change("cleanup.policy", SUBTRACT, None), INVALID_REQUEST),
        (Change("retention.ms", 4, "1"), INVALID_REQUEST),
    ],
)
def test_a_bad_change_of_a_topic_is_refused(change: Change, code: ErrorCode) -> None:
    with pytest.raises(KafkaError, match=r".+") as refused:
        alter_topic({}, [change], SETTINGS)
    assert refused.value.code is code


def test_a_key_may_be_named_once() -> None:
    changes = [Change("retention.ms", SET, "5"), Change("retention.ms", DELETE, None)]
    with pytest.raises(KafkaError, match=r"retention\.ms") as refused:
        alter_topic({}, changes, SETTINGS)
    assert refused.value.code is INVALID_REQUEST


def test_deleting_what_is_not_there_is_no_error() -> None:
    assert alter_topic({}, [Change("no.such.key", DELETE, None)], SETTINGS) == {}


def test_lags_must_leave_room_for_each_other() -> None:
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms"):
        alter_topic(
            {"max.compaction.lag.ms": "5"}, [Change("min.compaction.lag.ms", SET, "6")], SETTINGS
        )


def test_a_topic_is_created_with_good_values_only() -> None:
    assert create_topic([("retention.ms", "5")], SETTINGS) == {"retention.ms": "5"}
    for value in (None, "x"):
        with pytest.raises(KafkaError) as refused:
            create_topic([("retention.ms", value)], SETTINGS)
        assert refused.value.code is INVALID_CONFIG


def test_replacing_forgets_what_is_not_named() -> None:
    assert replace_topic([("segment.ms", "5")], SETTINGS) == {"segment.ms": "5"}
    assert replaced([]) == {}


@pytest.mark.parametrize(
    "configs", [[("retention.ms", None)], [("retention.ms", "1"), ("retention.ms", "1")]]
)
def test_a_bad_replacement_is_a_bad_request(configs: list[tuple[str, str | None]]) -> None:
    with pytest.raises(KafkaError) as refused:
        replace_topic(configs, SETTINGS)
    assert refused.value.code is INVALID_REQUEST


def test_brokers_change_alone_or_together() -> None:
    change = Change("message.max.bytes", SET, "5000")
    layer = {"message.max.bytes": "5000"}
    assert alter_broker([change], SETTINGS) == layer
    assert alter_cluster_defaults([change], SETTINGS) == layer
    settings = SETTINGS.changed(per_broker=layer)
    assert alter_broker([Change("message.max.bytes", DELETE, None)], settings) == {}


def test_what_brokers_do_not_know_they_keep() -> None:
    assert alter_broker([Change("my.own.key", SET, "x")], SETTINGS) == {"my.own.key": "x"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change("num.partitions", SET, "5"), INVALID_REQUEST),
        (Change("process.roles", SET, "broker"), INVALID_REQUEST),
        (Change("listener.name.a.ssl.keystore.location", SET, "x"), INVALID_REQUEST),
        (Change("ssl.keystore.location", SET, "x"), INVALID_REQUEST),
        (Change("message.max.bytes", SET, "x"), INVALID_REQUEST),
        (Change("message.max.bytes", SET, None), INVALID_REQUEST),
        (Change("log.roll.ms", SET, "0"), INVALID_REQUEST),
        (Change("leader.replication.throttled.rate", SET, "x"), INVALID_REQUEST),
        (Change("message.max.bytes", APPEND, "5"), INVALID_CONFIG),
        (Change("my.own.key", APPEND, "5"), INVALID_CONFIG),
    ],
)
def test_a_bad_change_of_brokers_is_refused(change: Change, code: ErrorCode) -> None:
    for alter in (alter_broker, alter_cluster_defaults):
        with pytest.raises(KafkaError, match=r".+") as refused:
            alter([change], SETTINGS)
        assert refused.value.code is code


@pytest.mark.parametrize("name", ["listeners", "listener.security.protocol.map"])
def test_listeners_stay_as_they_are_until_the_next_start(name: str) -> None:
    """Kafka opens and closes them at run time."""
    text = format_value(BROKER_KEYS[name].default)
    with pytest.raises(KafkaError, match="cannot be changed at run time") as refused:
        alter_broker([Change(name, SET, text)], SETTINGS)
    assert refused.value.code is INVALID_REQUEST


def test_a_key_of_one_broker_is_not_for_all() -> None:
    change = Change("cordoned.log.dirs", SET, "/a")
    assert alter_broker([change], SETTINGS) == {"cordoned.log.dirs": "/a"}
    with pytest.raises(KafkaError) as refused:
        alter_cluster_defaults([change], SETTINGS)
    assert refused.value.code is INVALID_REQUEST


CHANGES = st.builds(
    Change,
    st.sampled_from(["retention.ms", "cleanup.policy", "no.such.key", "segment.bytes"]),
    st.integers(-1, 4),
    st.sampled_from([None, "", "5", "x", "compact", "delete,compact", "1048576"]),
)


@given(st.lists(st.lists(CHANGES, max_size=3), max_size=6))
def test_whatever_is_asked_the_configuration_stays_good(requests: list[list[Change]]) -> None:
    overrides: dict[str, str] = {}
    for changes in requests:
        try:
            overrides = alter_topic(overrides, changes, SETTINGS)
        except KafkaError as refusal:
            assert refusal.code in (INVALID_CONFIG, INVALID_REQUEST)  # noqa: PT017
        SETTINGS.topic_config(overrides)
