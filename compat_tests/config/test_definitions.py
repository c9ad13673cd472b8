"""Every key of pyk is as Kafka describes it: name, type, default, sensitivity, updates, synonyms.

Documentation is in pyk's own words, and what pyk does not have is a list of names.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.config.answers import (
    BROKER,
    TOPIC,
    Answer,
    created,
    described,
    ours,
    settled,
    theirs,
)
from compat_tests.config.conftest import Running
from compat_tests.config.java import asked_java
from pyk.config.broker import BROKER_KEYS
from pyk.config.description import describe_broker, describe_cluster_defaults, describe_topic
from pyk.config.keys import Update
from pyk.config.others import OTHER_NAMES
from pyk.config.security import ONLY_BY_LISTENER
from pyk.config.sources import is_known
from pyk.config.topic import TOPIC_KEYS
from pyk.errors import ErrorCode

OVERRIDES = {
    "retention.ms": " 1000 ",
    "cleanup.policy": "delete, compact",
    "preallocate": "TRUE",
    "min.cleanable.dirty.ratio": ".00025",
    "leader.replication.throttled.replicas": "0:1,1:1",
}

DIFFERENCES = {
    "node.id": "pyk has a default, because it starts with nothing to configure",
    "listeners": "pyk goes on to listen where it did at its start",
    "listener.security.protocol.map": "as listeners",
}


@pytest.fixture(scope="module")
def definitions() -> list[list[str]]:
    return [line.split("\t") for line in asked_java("definitions")]


def test_a_topic_is_described_as_kafka_does(kafka: Running, report: Callable[[str], None]) -> None:
    assert created(kafka.address, "described", OVERRIDES) is ErrorCode.NONE
    found = ours(describe_topic(kafka.settings, OVERRIDES))
    assert settled(lambda: theirs(kafka.address, TOPIC, "described"), found) == found
    report(f"configuration: {len(found)} keys of a topic described alike")


def test_a_topic_without_configuration_too(kafka: Running) -> None:
    assert created(kafka.address, "plain", {}) is ErrorCode.NONE
    found = ours(describe_topic(kafka.settings, {}))
    assert settled(lambda: theirs(kafka.address, TOPIC, "plain"), found) == found


def test_a_broker_is_described_as_kafka_does(kafka: Running, report: Callable[[str], None]) -> None:
    found = ours(describe_broker(kafka.settings))
    wanted = theirs(kafka.address, BROKER, "1")
    compared = (set(BROKER_KEYS) | {"my.own.key"}) - set(DIFFERENCES)
    assert {name: found[name] for name in compared} == {name: wanted[name] for name in compared}
    assert found["my.own.key"].value is None
    report(f"configuration: {len(compared)} keys of a broker described alike")


def test_listed_differences_are_still_there(kafka: Running) -> None:
    found = ours(describe_broker(kafka.settings))
    wanted = theirs(kafka.address, BROKER, "1")
    for name in DIFFERENCES:
        assert found[name] != wanted[name]
    node_id = Answer("1", 4, 3, True, False, (("node.id", "1", 4),))
    assert wanted["node.id"] == node_id
    default = (("node.id", "1", 5),)
    assert found["node.id"] == node_id._replace(synonyms=node_id.synonyms + default)


def test_defaults_of_the_cluster_are_described_as_kafka_does(kafka: Running) -> None:
    found = ours(describe_cluster_defaults(kafka.settings))
    assert found == theirs(kafka.address, BROKER, "")


def test_documentation_is_in_words_of_its_own(kafka: Running) -> None:
    assert created(kafka.address, "documented", {}) is ErrorCode.NONE
    settled(lambda: bool(described(kafka.address, TOPIC, "documented")), True)
    for keys, kind, name in ((TOPIC_KEYS, TOPIC, "documented"), (BROKER_KEYS, BROKER, "1")):
        for entry in described(kafka.address, kind, name):
            if entry.name in keys:
                documentation = keys[entry.name].documentation
                assert documentation.endswith(".")
                assert documentation not in (entry.documentation or "")


def test_what_pyk_does_not_have_is_a_list_of_names(
    definitions: list[list[str]], kafka: Running
) -> None:
    names = {name for scope, name, *_ in definitions if scope == "broker"}
    assert names - set(BROKER_KEYS) <= OTHER_NAMES
    assert set(BROKER_KEYS) <= names
    assert not set(BROKER_KEYS) & OTHER_NAMES
    shown = theirs(kafka.address, BROKER, "1")
    assert {name for name in shown if not is_known(name)} == {"my.own.key"}


def test_keys_change_at_run_time_where_kafkas_do(definitions: list[list[str]]) -> None:
    wanted = {name: update for scope, name, _, update, *_ in definitions if scope == "broker"}
    compared = set(BROKER_KEYS) - {"listeners", "listener.security.protocol.map"}
    assert {name: BROKER_KEYS[name].update.value for name in compared} == {
        name: wanted[name] for name in compared
    }
    by_listener = {name for scope, name, *_ in definitions if scope == "by-listener"}
    assert by_listener == ONLY_BY_LISTENER
    assert all(BROKER_KEYS[name].update is Update.PER_BROKER for name in by_listener)
