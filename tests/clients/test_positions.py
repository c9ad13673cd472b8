"""Where to read from: offsets, times, ends."""

from __future__ import annotations

import pytest

from tests.clients.adapters.client import Client, Sent
from tests.clients.adapters.confluent import Confluent
from tests.clients.stored import create_topic

THEN = 1_700_000_000_000
TIMES = (THEN, THEN + 10, THEN + 30, THEN + 20, THEN + 40, THEN + 15)


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with a record of each of the times, and whatever client may set them."""
    create_topic(client.address, topic, partitions=2)
    sent = [Sent(value=b"%d" % at, timestamp=each) for at, each in enumerate(TIMES)]
    for batch in (sent[:1], sent[1:4], sent[4:]):
        Confluent(client.address).produce(topic, batch, partition=1)
    return topic


def test_reading_starts_at_any_offset(client: Client, filled: str) -> None:
    for offset in (0, 3, 5, 6):
        found = client.consume(filled, partition=1, offset=offset)
        assert [each.offset for each in found] == list(range(offset, 6))
        assert [each.value for each in found] == [b"%d" % at for at in range(offset, 6)]


def test_reading_starts_at_a_time(client: Client, filled: str) -> None:
    for since, offset in ((THEN - 1, 0), (THEN + 1, 1), (THEN + 11, 2), (THEN + 31, 4)):
        found = client.consume_since(filled, since, partition=1)
        assert [each.offset for each in found] == list(range(offset, 6))


def test_nothing_is_later_than_the_latest(client: Client, filled: str) -> None:
    assert client.offset_at(filled, THEN + 41, partition=1) is None


def test_both_ends_are_told(client: Client, filled: str) -> None:
    assert client.offset_at(filled, "earliest", partition=1) == 0
    assert client.offset_at(filled, "latest", partition=1) == 6
    assert client.offset_at(filled, "earliest") == 0
    assert client.offset_at(filled, "latest") == 0


def test_the_record_of_the_latest_time_is_told(client: Client, filled: str) -> None:
    assert client.offset_at(filled, "max timestamp", partition=1) == 4
    assert client.offset_at(filled, "max timestamp") is None


def test_deleted_records_are_not_read_any_more(client: Client, filled: str) -> None:
    assert client.delete_records(filled, 4, partition=1) == 4
    assert client.offset_at(filled, "earliest", partition=1) == 4
    assert client.offset_at(filled, THEN, partition=1) == 4
    found = client.consume(filled, partition=1, offset=4)
    assert [each.offset for each in found] == [4, 5]
