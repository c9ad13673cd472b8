"""Messages that are large, and those that are too large."""

from __future__ import annotations

import pytest

from tests.clients.adapters.client import Client, Refused, Sent
from tests.clients.stored import create_topic

MEGABYTE = 1024**2


def of_size(size: int) -> Sent:
    return Sent(key=b"large", value=b"0123456789abcdef" * (size // 16))


def test_a_message_just_within_the_limit_comes_out(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    sent = of_size(MEGABYTE - 1024)
    client.produce(topic, [sent, Sent(value=b"small"), sent])
    found = client.consume(topic)
    assert [each.value for each in found] == [sent.value, b"small", sent.value]


def test_a_message_beyond_the_limit_is_refused(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        client.produce(topic, [of_size(2 * MEGABYTE)])
    assert client.consume(topic) == []


def test_a_topic_has_a_limit_of_its_own(client: Client, topic: str) -> None:
    create_topic(client.address, topic, max_message_bytes="6000000")
    sent = of_size(5 * MEGABYTE)
    client.produce(topic, [sent])
    assert [each.value for each in client.consume(topic)] == [sent.value]


def test_a_small_limit_is_kept_too(client: Client, topic: str) -> None:
    create_topic(client.address, topic, max_message_bytes="1000")
    client.produce(topic, [of_size(512)])
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        client.produce(topic, [of_size(2048)])
    assert len(client.consume(topic)) == 1
