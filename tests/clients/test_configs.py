"""Configurations of topics, described and changed."""

from __future__ import annotations

import pytest

from tests.clients.adapters.client import Client, Refused, Sent
from tests.clients.stored import create_topic


def test_a_topic_is_made_with_a_configuration(client: Client, topic: str) -> None:
    client.create_topics({topic: 1}, {"cleanup.policy": "compact", "retention.ms": "1000"})
    found = client.describe_config(topic)
    assert (found["cleanup.policy"], found["retention.ms"]) == ("compact", "1000")
    assert found["segment.bytes"] == "1073741824"


def test_a_configuration_that_is_none_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        client.create_topics({topic: 1}, {"retention.ms": "long"})
    assert topic not in client.list_topics()


def test_one_key_is_changed_and_takes_effect(client: Client, topic: str) -> None:
    create_topic(client.address, topic, retention_ms="1000")
    client.alter_config(topic, "max.message.bytes", "1000")
    found = client.describe_config(topic)
    assert (found["max.message.bytes"], found["retention.ms"]) == ("1000", "1000")
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        client.produce(topic, [Sent(value=bytes(5_000))])
    client.alter_config(topic, "max.message.bytes", None)
    assert client.describe_config(topic)["max.message.bytes"] == "1048588"
    client.produce(topic, [Sent(value=bytes(5_000))])


def test_a_change_that_is_none_is_refused(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        client.alter_config(topic, "max.message.bytes", "-7")
    assert client.describe_config(topic)["max.message.bytes"] == "1048588"


def test_a_configuration_is_replaced(client: Client, topic: str) -> None:
    create_topic(client.address, topic, retention_ms="1000")
    client.replace_config(topic, {"max.message.bytes": "1000"})
    found = client.describe_config(topic)
    assert (found["max.message.bytes"], found["retention.ms"]) == ("1000", "604800000")
