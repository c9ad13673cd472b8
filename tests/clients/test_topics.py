"""Topics made, found, widened and deleted."""

from __future__ import annotations

import pytest

from tests.clients.adapters.client import Client, Refused, Sent
from tests.clients.stored import create_topic

MANY = 1_000


def test_a_topic_is_there_as_soon_as_it_was_made(client: Client, topic: str) -> None:
    client.create_topics({topic: 3})
    assert topic in client.list_topics()
    assert client.describe_topics([topic]) == {topic: 3}


def test_a_topic_is_listed_and_described(client: Client, topic: str) -> None:
    create_topic(client.address, topic, partitions=3)
    assert topic in client.list_topics()
    assert client.describe_topics([topic]) == {topic: 3}


def test_making_a_topic_twice_is_an_error(client: Client, topic: str) -> None:
    client.create_topics({topic: 1})
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        client.create_topics({topic: 1})


def test_a_name_that_is_none_is_refused(client: Client) -> None:
    with pytest.raises(Refused, match="INVALID_TOPIC"):
        client.create_topics({"no/name": 1})


def test_partitions_are_added(client: Client, topic: str) -> None:
    client.create_topics({topic: 2})
    client.create_partitions(topic, 5)
    assert client.describe_topics([topic]) == {topic: 5}
    client.produce(topic, [Sent(value=b"to a new one")], partition=4)
    assert [each.value for each in client.consume(topic, partition=4)] == [b"to a new one"]
    with pytest.raises(Refused, match="INVALID_PARTITIONS"):
        client.create_partitions(topic, 3)


def test_a_deleted_topic_is_gone_with_its_records(client: Client, topic: str) -> None:
    client.create_topics({topic: 1})
    client.produce(topic, [Sent(value=b"old")])
    client.delete_topics([topic])
    assert topic not in client.list_topics()
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        client.delete_topics([topic])
    client.create_topics({topic: 1})
    assert client.consume(topic) == []
    client.produce(topic, [Sent(value=b"new")])
    assert [(each.offset, each.value) for each in client.consume(topic)] == [(0, b"new")]


def test_a_topic_may_have_two_hundred_partitions(client: Client, topic: str) -> None:
    create_topic(client.address, topic, partitions=200)
    assert client.describe_topics([topic]) == {topic: 200}
    for partition in (0, 99, 199):
        client.produce(topic, [Sent(value=b"%d" % partition)], partition=partition)
    for partition in (0, 99, 199):
        (found,) = client.consume(topic, partition=partition)
        assert (found.offset, found.value) == (0, b"%d" % partition)


def test_a_thousand_topics_are_made_listed_described_and_deleted(
    client: Client, topic: str
) -> None:
    names = {f"{topic}-{number}": 1 for number in range(MANY)}
    before = client.list_topics()
    client.create_topics(names)
    assert client.list_topics() - before == set(names)
    assert client.describe_topics(list(names)) == names
    client.delete_topics(list(names))
    assert client.list_topics() == before
