"""Layers of configuration: which value counts, for a broker and for its topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.config.broker import BROKER_KEYS, INTERNAL_KEYS, BrokerConfig
from pyk.config.checks import check_broker, check_cluster_defaults
from pyk.config.description import describe_broker, describe_topic
from pyk.config.keys import Key
from pyk.config.listeners import (
    Listener,
    parse_limits_by_host,
    parse_listener,
    parse_protocol_map,
)
from pyk.config.settings import BrokerSettings, valid
from pyk.config.sources import gather
from pyk.config.topic import TOPIC_KEYS, TopicConfig
from pyk.config.values import Value, format_value
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.wire.batch import TimestampType
from pyk.wire.compression import Compression

HOUR_MS = 3_600_000


def test_nothing_configured_is_kafkas_defaults() -> None:
    settings = BrokerSettings()
    assert settings.config == BrokerConfig(broker_id=1)
    assert settings.topic_config() == TopicConfig()


def test_values_are_typed() -> None:
    config = BrokerSettings(
        {
            "auto.create.topics.enable": "false",
            "log.dirs": "/a, /b",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "log.roll.ms": "5",
        }
    ).config
    assert config.auto_create_topics_enable is False
    assert config.log_dirs == config.data_directories == ("/a", "/b")
    assert config.log_cleaner_min_cleanable_ratio == 0.25
    assert config.log_roll_ms == 5


def test_without_log_dirs_the_one_directory_counts() -> None:
    assert BrokerSettings({"log.dir": "/a"}).config.data_directories == ("/a",)


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_both_names_of_the_broker_are_one(name: str) -> None:
    config = BrokerSettings({name: "7"}).config
    assert (config.node_id, config.broker_id) == (7, 7)


def test_a_broker_cannot_have_two_ids() -> None:
    with pytest.raises(KafkaError, match=r"broker\.id"):
        BrokerSettings({"node.id": "1", "broker.id": "2"})


def test_one_broker_is_over_all_and_all_over_the_file() -> None:
    name, static = "message.max.bytes", {"message.max.bytes": "1000"}
    settings = BrokerSettings(static)
    assert settings.config.message_max_bytes == 1000
    settings = settings.changed(cluster_wide={name: "2000"})
    assert settings.config.message_max_bytes == 2000
    settings = settings.changed(per_broker={name: "3000"})
    assert settings.config.message_max_bytes == 3000
    assert settings.topic_config().max_message_bytes == 3000
    assert settings.topic_config({"max.message.bytes": "4000"}).max_message_bytes == 4000
    settings = settings.changed(per_broker={})
    assert settings.config.message_max_bytes == 2000


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "5"}, 5 * HOUR_MS),
        ({"log.retention.hours": "5", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-9"}, -1),
    ],
)
def test_the_finest_unit_counts(static: dict[str, str], retention_ms: int) -> None:
    assert BrokerSettings(static).topic_config().retention_ms == retention_ms


def test_a_dynamic_value_hides_its_other_units_in_the_file() -> None:
    settings = BrokerSettings({"log.retention.hours": "5"}, cluster_wide={"log.retention.ms": "7"})
    assert settings.topic_config().retention_ms == 7
    assert settings.config.log_retention_hours == 168


def test_other_units_of_time() -> None:
    settings = BrokerSettings({"log.roll.hours": "2", "log.flush.scheduler.interval.ms": "70"})
    topic = settings.topic_config()
    assert (topic.segment_ms, topic.segment_jitter_ms, topic.flush_ms) == (2 * HOUR_MS, 0, 70)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.segment.bytes", "1"),
        ("log.segment.bytes", "much"),
        ("log.roll.ms", "0"),
        ("log.roll.jitter.ms", "-1"),
        ("log.retention.ms", "0"),
        ("log.retention.minutes", "0"),
        ("log.dirs", ""),
        ("listeners", ""),
        ("listeners", "nonsense"),
        ("listeners", "PLAINTEXT://:65536"),
        ("listeners", "MINE://:9092"),
        ("advertised.listeners", "PLAINTEXT://localhost"),
        ("listener.security.protocol.map", "PLAINTEXT:NONSENSE"),
        ("listener.security.protocol.map", "A:SSL,a:SSL"),
        ("group.consumer.migration.policy", "never"),
        ("max.connections.per.ip.overrides", "127.0.0.1:abc"),
        ("max.connections.per.ip.overrides", "127.0.0.1:-1"),
        ("max.connections.per.ip.overrides", "127.0.0.1"),
        ("max.connections.per.ip.overrides", ":5"),
        ("max.connections.per.ip.overrides", "a b:5"),
        ("max.connections.per.ip", "0"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(name: str, text: str) -> None:
    with pytest.raises(KafkaError, match=name.replace(".", r"\.")) as refused:
        BrokerSettings({name: text})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_secrets_are_not_in_what_is_logged() -> None:
    config = BrokerSettings({"ssl.key.password": "hunter2"}).config
    assert config.ssl_key_password == "hunter2"
    assert "hunter2" not in repr(config)


def test_listeners_have_names_hosts_and_ports() -> None:
    assert parse_listener("listeners", "plaintext://:0") == Listener("PLAINTEXT", "", 0)
    assert parse_listener("listeners", "A://[::1]:9092") == Listener("A", "::1", 9092)
    assert parse_listener("listeners", "A_B://my-host.org:1") == Listener("A_B", "my-host.org", 1)


def test_listeners_have_protocols() -> None:
    found = parse_protocol_map("listener.security.protocol.map", "a:plaintext, B:SSL,")
    assert found == {"A": "PLAINTEXT", "B": "SSL"}


def test_the_limit_of_a_host_is_behind_its_last_colon() -> None:
    found = parse_limits_by_host("max.connections.per.ip.overrides", "::1:5, 10.0.0.1 : 0,a.b:7,")
    assert found == {"::1": 5, "10.0.0.1": 0, "a.b": 7}


def test_what_is_stored_and_not_valid_is_ignored_and_the_rest_is_in_force() -> None:
    settings = BrokerSettings().following(
        {"max.connections.per.ip.overrides": "127.0.0.1:abc", "message.max.bytes": "2000"},
        {"listeners": "PLAINTEXT://:1", "log.roll.ms": "0", "log.retention.ms": "5"},
    )
    assert settings.config.message_max_bytes == 2000
    assert settings.config.log_retention_ms == 5
    assert (
        settings.config
        == BrokerSettings({"message.max.bytes": "2000", "log.retention.ms": "5"}).config
    )
    assert set(settings.ignored) == {
        "max.connections.per.ip.overrides", "listeners", "log.roll.ms",
    }  # fmt: skip
    assert settings.following(*settings.stored).config == settings.config


def test_what_is_ignored_does_not_keep_anybody_from_changing_something_else() -> None:
    settings = BrokerSettings().following({"log.roll.ms": "0"}, {"listeners": "nonsense"})
    check_broker({**settings.per_broker, "message.max.bytes": "1"}, settings)
    check_cluster_defaults({**settings.cluster_wide, "message.max.bytes": "1"}, settings)


def test_values_of_a_topic_that_are_stored_and_not_valid_are_ignored() -> None:
    refusals: list[KafkaError] = []
    stored = {"segment.ms": "0", "retention.ms": "5", "unknown": "x"}
    assert valid(TOPIC_KEYS, stored, refusals.append) == {"retention.ms": "5", "unknown": "x"}
    assert "segment.ms" in str(*refusals)
    described = {entry.name: entry for entry in describe_topic(BrokerSettings(), stored)}
    assert described["segment.ms"].value == str(7 * 24 * HOUR_MS)
    assert described["retention.ms"].value == "5"


@pytest.mark.parametrize("keys", [BROKER_KEYS, TOPIC_KEYS])
def test_every_default_can_be_written_and_read(keys: Mapping[str, Key]) -> None:
    for key in keys.values():
        text = format_value(key.default)
        assert text is None or key.parse(text) == key.default


def test_what_is_internal_can_be_set_and_is_not_described() -> None:
    name = next(iter(INTERNAL_KEYS))
    static = {name: "7"}
    settings = BrokerSettings(static)
    assert getattr(settings.config, INTERNAL_KEYS[name].attribute) == 7
    assert name not in {entry.name for entry in describe_broker(BrokerSettings())}
    assert gather(static).without_effect == gather(static).unknown == ()
    with pytest.raises(KafkaError, match="run time"):
        check_broker({name: "8"}, settings)


def test_every_topic_key_rests_on_keys_that_brokers_have() -> None:
    for key in TOPIC_KEYS.values():
        for name in key.broker:
            assert name in BROKER_KEYS


def test_a_log_has_what_its_topic_says() -> None:
    topic = BrokerSettings().topic_config(
        {
            "cleanup.policy": "compact,delete",
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.1",
        }
    )
    assert LogConfig.of(topic) == LogConfig(
        cleanup_policy=frozenset(CleanupPolicy),
        compression_type=Compression.ZSTD,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        segment_bytes=1_048_576,
        min_cleanable_dirty_ratio=0.1,
    )


def test_a_log_of_an_unconfigured_topic_has_the_same_defaults() -> None:
    assert LogConfig.of(TopicConfig()) == LogConfig()


@pytest.mark.parametrize("name", ["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
def test_every_codec_is_one_that_logs_know(name: str) -> None:
    LogConfig.of(BrokerSettings().topic_config({"compression.type": name}))


LAYER = st.dictionaries(
    st.sampled_from(["num.io.threads", "message.max.bytes", "log.cleaner.threads"]),
    st.integers(1, 1000).map(str),
)


@given(LAYER, LAYER, LAYER)
def test_the_strongest_layer_that_has_a_key_decides(
    static: dict[str, str], cluster_wide: dict[str, str], per_broker: dict[str, str]
) -> None:
    settings = BrokerSettings(static, cluster_wide=cluster_wide, per_broker=per_broker)
    for name in ("num.io.threads", "message.max.bytes", "log.cleaner.threads"):
        key = BROKER_KEYS[name]
        layers = (per_broker, cluster_wide, static, {name: str(key.default)})
        wanted: Value = int(next(layer[name] for layer in layers if name in layer))
        assert getattr(settings.config, key.attribute) == wanted


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "that clients can connect to"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "that clients can connect to"),
        ({"advertised.listeners": "SSL://here:9092"}, "no listener is SSL"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "a name of its own"),
    ],
)
def test_listeners_that_nobody_could_use_are_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(KafkaError, match=reason):
        BrokerSettings(values)


def test_a_configuration_has_its_keys_and_stays_as_it_is() -> None:
    config = TopicConfig(retention_ms=5)
    assert config != TopicConfig()
    assert (config.retention_ms, config.segment_ms) == (5, TopicConfig().segment_ms)
    with pytest.raises(AttributeError, match="retention_ms"):
        config.retention_ms = 6
    with pytest.raises(AssertionError, match="retention"):
        TopicConfig(retention=5)
