"""A group whose members change the protocol one by one, and back: Kafka's client, and others."""

from __future__ import annotations

import pytest

from compat_tests.groups.kinds import (
    FRANZ,
    FRANZ_CONSUMER,
    JAVA,
    JAVA_CONSUMER,
    JAVA_COOPERATIVE,
    marked,
)
from tests.clients.groups.group import Groups
from tests.clients.groups.kinds import CONFLUENT, CONFLUENT_CONSUMER, Kind
from tests.clients.groups.test_change_of_protocol import go_to_the_consumer_protocol_and_back


@pytest.mark.parametrize(
    ("kind", "newer"),
    [
        marked(JAVA, JAVA_CONSUMER),
        marked(JAVA_COOPERATIVE, CONFLUENT_CONSUMER),
        marked(CONFLUENT, JAVA_CONSUMER),
        marked(FRANZ, FRANZ_CONSUMER),
        marked(CONFLUENT, CONFLUENT_CONSUMER),
    ],
)
def test_a_group_goes_to_the_consumer_protocol_and_back(groups: Groups, newer: Kind) -> None:
    go_to_the_consumer_protocol_and_back(groups, newer)
