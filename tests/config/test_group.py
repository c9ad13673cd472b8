"""What groups and subscriptions to clients' metrics may be configured with, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyk.config.checks import check_client_metrics, check_group
from pyk.config.description import Source, Synonym, describe_client_metrics, describe_group
from pyk.config.group import GROUP_KEYS
from pyk.config.settings import BrokerSettings
from pyk.errors import ErrorCode, KafkaError

SETTINGS = BrokerSettings({"group.consumer.heartbeat.interval.ms": "6000"})
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
START = "share.auto.offset.reset"


def code_of_group(overrides: Mapping[str, str], settings: BrokerSettings = SETTINGS) -> ErrorCode:
    try:
        check_group(overrides, settings)
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.NONE


def code_of_metrics(name: str, text: str) -> ErrorCode:
    try:
        check_client_metrics({name: text})
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.NONE


def test_a_group_has_the_brokers_values_where_it_has_none() -> None:
    config = SETTINGS.group_config({SESSION: "50000"})
    assert config.consumer_session_timeout_ms == 50_000
    assert config.consumer_heartbeat_interval_ms == 6000
    assert config.share_auto_offset_reset == "latest"


def test_a_groups_values_are_shown_with_those_below_them() -> None:
    entries = {each.name: each for each in describe_group(SETTINGS, {SESSION: " 50000 "})}
    assert list(entries) == list(GROUP_KEYS)
    session, heartbeat, start = entries[SESSION], entries[HEARTBEAT], entries[START]
    assert (session.value, session.source) == ("50000", Source.GROUP_CONFIG)
    broker_name = "group.consumer.session.timeout.ms"
    assert session.synonyms == (
        Synonym(SESSION, "50000", Source.GROUP_CONFIG),
        Synonym(broker_name, "45000", Source.DEFAULT_CONFIG),
    )
    assert (heartbeat.value, heartbeat.source) == ("6000", Source.STATIC_BROKER_CONFIG)
    assert start.synonyms == (Synonym(START, "latest", Source.DEFAULT_CONFIG),)


@pytest.mark.parametrize(
    ("key", "text", "code"),
    [
        ("consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "60000", ErrorCode.NONE),
        ("consumer.session.timeout.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("streams.num.standby.replicas", "2", ErrorCode.NONE),
        ("streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("streams.initial.rebalance.delay.ms", "999999", ErrorCode.NONE),
        ("share.isolation.level", "read_committed", ErrorCode.NONE),
        ("share.isolation.level", "READ_COMMITTED", ErrorCode.INVALID_CONFIG),
        ("nonsense", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_group_stays_within_what_the_broker_allows(key: str, text: str, code: ErrorCode) -> None:
    assert code_of_group({key: text}) is code


def test_a_session_is_longer_than_the_time_between_two_signs_of_life() -> None:
    settings = BrokerSettings({"group.consumer.max.heartbeat.interval.ms": "60000"})
    assert code_of_group({HEARTBEAT: "44999"}, settings) is ErrorCode.NONE
    assert code_of_group({HEARTBEAT: "45000"}, settings) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("text", ["P1D", "PT1H30M", "PT0.5S", "p1dt2h", "P1DT-1H", "PT0S"])
def test_a_share_group_may_start_some_time_ago(text: str) -> None:
    assert code_of_group({START: f"by_duration:{text}"}) is ErrorCode.NONE


@pytest.mark.parametrize("text", ["", "P", "PT", "P1Y", "-PT1H", "PT-1S", "1h", "P1H", "PT1D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert code_of_group({START: f"by_duration:{text}"}) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("interval.ms", "100", ErrorCode.NONE),
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("metrics", "org.apache.kafka.producer.,*", ErrorCode.NONE),
        ("match", "client_id=a.*, client_source_port=1", ErrorCode.NONE),
        ("match", "client_id=a=", ErrorCode.NONE),
        ("match", "client_id==", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=a=b", ErrorCode.INVALID_CONFIG),
        ("match", "somebody=a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[", ErrorCode.INVALID_CONFIG),
        ("nonsense", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_subscriptions_are_checked(name: str, text: str, code: ErrorCode) -> None:
    assert code_of_metrics(name, text) is code


def test_a_subscription_shows_defaults_and_its_own() -> None:
    interval, metrics, match = describe_client_metrics({"metrics": "a, b"})
    assert (interval.value, interval.source, interval.synonyms) == (
        "300000",
        Source.DEFAULT_CONFIG,
        (),
    )
    own = Source.CLIENT_METRICS_CONFIG
    assert (metrics.value, metrics.synonyms) == ("a,b", (Synonym("metrics", "a,b", own),))
    assert (match.value, match.source) == ("", Source.DEFAULT_CONFIG)
