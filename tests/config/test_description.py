"""What DescribeConfigs tells about topics and brokers."""

from __future__ import annotations

from pyk.config.broker import BROKER_KEYS
from pyk.config.description import (
    Entry,
    Source,
    Synonym,
    describe_broker,
    describe_cluster_defaults,
    describe_topic,
)
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType

TOPIC, BROKER, CLUSTER, STATIC, DEFAULT, *_ = Source


def of(name: str, entries: list[Entry]) -> Entry:
    return next(entry for entry in entries if entry.name == name)


def test_every_key_is_described_once_and_in_words() -> None:
    for keys, entries in (
        (TOPIC_KEYS, describe_topic(BrokerSettings(), {})),
        (BROKER_KEYS, describe_broker(BrokerSettings())),
    ):
        assert [entry.name for entry in entries] == list(keys)
        assert all(entry.documentation for entry in entries)


def test_a_default_says_so() -> None:
    entry = of("segment.bytes", describe_topic(BrokerSettings(), {}))
    assert (entry.value, entry.source, entry.is_default) == ("1073741824", DEFAULT, True)
    assert entry.type is ValueType.INT
    assert not entry.read_only
    assert entry.synonyms == (Synonym("log.segment.bytes", "1073741824", DEFAULT),)


def test_synonyms_come_strongest_first() -> None:
    settings = BrokerSettings(
        {"log.segment.bytes": "2000000"},
        cluster_wide={"log.segment.bytes": "3000000"},
        per_broker={"log.segment.bytes": "4000000"},
    )
    entry = of("segment.bytes", describe_topic(settings, {"segment.bytes": " 5000000 "}))
    assert (entry.value, entry.source) == ("5000000", TOPIC)
    assert entry.synonyms == (
        Synonym("segment.bytes", "5000000", TOPIC),
        Synonym("log.segment.bytes", "4000000", BROKER),
        Synonym("log.segment.bytes", "3000000", CLUSTER),
        Synonym("log.segment.bytes", "2000000", STATIC),
        Synonym("log.segment.bytes", "1073741824", DEFAULT),
    )


def test_hours_alone_are_no_synonym_of_milliseconds() -> None:
    entry = of("retention.ms", describe_topic(BrokerSettings({"log.retention.hours": "5"}), {}))
    assert (entry.value, entry.source, entry.synonyms) == ("18000000", DEFAULT, ())


def test_hours_are_a_synonym_behind_milliseconds() -> None:
    settings = BrokerSettings(cluster_wide={"log.retention.ms": "9"})
    entry = of("log.retention.ms", describe_broker(settings))
    assert entry.synonyms == (
        Synonym("log.retention.ms", "9", CLUSTER),
        Synonym("log.retention.hours", "168", DEFAULT),
    )


def test_what_cannot_change_is_read_only() -> None:
    entries = describe_broker(BrokerSettings())
    assert of("num.partitions", entries).read_only
    assert of("listeners", entries).read_only
    assert not of("cordoned.log.dirs", entries).read_only
    assert not of("message.max.bytes", entries).read_only


def test_a_password_is_not_shown() -> None:
    entry = of("ssl.key.password", describe_broker(BrokerSettings({"ssl.key.password": "hunter2"})))
    assert entry.is_sensitive
    assert entry.value is None
    assert entry.synonyms == (Synonym("ssl.key.password", None, STATIC),)


def test_what_is_not_known_may_be_a_secret() -> None:
    settings = BrokerSettings({"my.key": "hunter2"}, cluster_wide={"my.other": "x"})
    entry = of("my.key", describe_broker(settings))
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
    assert entry.type is ValueType.UNKNOWN
    assert "hunter2" not in repr(describe_broker(settings))
    assert of("my.other", describe_cluster_defaults(settings)).value is None


def test_defaults_of_the_cluster_are_only_what_is_set() -> None:
    settings = BrokerSettings(cluster_wide={"num.io.threads": "9"})
    (entry,) = describe_cluster_defaults(settings)
    assert (entry.name, entry.value, entry.source) == ("num.io.threads", "9", CLUSTER)
    assert entry.synonyms == (Synonym("num.io.threads", "9", CLUSTER),)
