"""How clients produce: acknowledgements, and the producer's id."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.clients.adapters.client import Client, Sent
from tests.clients.stored import create_topic, stored_batches

SENT = [Sent(value=b"%d" % number) for number in range(200)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_served(client: Client, topic: str, acks: str) -> None:
    create_topic(client.address, topic)
    client.produce(topic, SENT, acks=acks)
    found = client.consume(topic)
    while acks == "0" and len(found) < len(SENT):
        found = client.consume(topic)  # Nobody has told the client that they have arrived.
    assert [each.value for each in found] == [each.value for each in SENT]


def test_an_idempotent_producer_has_an_id_and_counts(client: Client, topic: str) -> None:
    create_topic(client.address, topic)
    for _ in range(2):
        client.produce(topic, SENT, idempotent=True)
    stored = stored_batches(client.address, topic)
    ids = list(dict.fromkeys(each.producer_id for each in stored))
    assert len(ids) == 2
    assert min(ids) >= 0
    for producer_id in ids:
        of_one = [each for each in stored if each.producer_id == producer_id]
        assert of_one[0].base_sequence == 0
        for one, other in pairwise(of_one):
            assert other.base_sequence == one.last_sequence + 1
    assert [each.value for each in client.consume(topic)] == [each.value for each in SENT] * 2


def test_a_topic_is_made_by_whoever_first_needs_it(client: Client, topic: str) -> None:
    client.produce(topic, SENT)
    assert len(client.consume(topic)) == len(SENT)
