"""Files, variables and options: what they mean, which one wins, and what does nothing."""

from __future__ import annotations

import pytest

from pyk.config.sources import from_environment, from_options, gather
from pyk.errors import KafkaError


def test_underscores_become_dots_underscores_and_dashes() -> None:
    environment = {
        "KAFKA_LOG_RETENTION_MS": "5",
        "KAFKA_A__B": "underscore",
        "KAFKA_A___B": "dash",
    }
    assert from_environment(environment) == {
        "log.retention.ms": "5",
        "a_b": "underscore",
        "a-b": "dash",
    }


def test_variables_of_the_jvm_and_of_others_are_left_alone() -> None:
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_OPTS": "", "HOME": "/", "kafka_node_id": "1"}
    assert from_environment(environment) == {}


def test_a_backslash_in_a_variable_is_an_escape_as_in_the_image() -> None:
    assert from_environment({"KAFKA_A": r"x\ty"}) == {"a": "x\ty"}


def test_who_only_advertises_listens_on_the_same_ports() -> None:
    advertised = "PLAINTEXT://kafka:9092,OTHER://[::1]:9093"
    found = from_environment({"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert found == {
        "advertised.listeners": advertised,
        "listeners": "PLAINTEXT://:9092,OTHER://:9093",
    }


def test_listeners_that_are_given_stay() -> None:
    environment = {
        "KAFKA_LISTENERS": "PLAINTEXT://:1",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
    }
    assert from_environment(environment)["listeners"] == "PLAINTEXT://:1"


def test_options_are_pairs() -> None:
    assert from_options(["a=1", " b = 2=3 ", "c="]) == {"a": "1", "b": "2=3", "c": ""}


@pytest.mark.parametrize("option", ["", "a", "=1", " =1"])
def test_an_option_that_is_no_pair_is_refused(option: str) -> None:
    with pytest.raises(KafkaError, match="key=value"):
        from_options([option])


def test_the_last_source_wins() -> None:
    gathered = gather({"node.id": "1", "num.partitions": "2"}, {"node.id": "3"}, {})
    assert gathered.values == {"node.id": "3", "num.partitions": "2"}
    assert gathered.warning is None


def test_one_warning_names_all_that_does_nothing() -> None:
    gathered = gather(
        {
            "process.roles": "broker",
            "num.io.threads": "4",
            "no.such.key": "1",
            "listener.name.a.ssl.keystore.location": "x",
            "log.segment.bytes": "2097152",
        },
        {"another": "1"},
    )
    assert gathered.unknown == ("another", "no.such.key")
    assert gathered.without_effect == (
        "listener.name.a.ssl.keystore.location",
        "num.io.threads",
        "process.roles",
    )
    assert gathered.warning == (
        "Configuration that does nothing (unknown: another, no.such.key; without effect in pyk: "
        "listener.name.a.ssl.keystore.location, num.io.threads, process.roles)."
    )
