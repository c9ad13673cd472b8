"""What clients learn of the cluster: its nodes, directories and features."""

from __future__ import annotations

from pyk.handlers.features import SUPPORTED_FEATURES
from tests.clients.adapters.client import Client
from tests.clients.brokers import RunningBroker
from tests.clients.stored import create_topic


def test_the_cluster_is_the_address_that_was_reached(client: Client, broker: RunningBroker) -> None:
    nodes, controller = client.describe_cluster()
    assert nodes == {1: broker.address}
    assert controller in (1, None)


def test_log_directories_hold_what_was_made(
    client: Client, broker: RunningBroker, topic: str
) -> None:
    create_topic(client.address, topic, partitions=3)
    ((path, held),) = client.describe_log_dirs().items()
    assert path == str(broker.data_dir)
    assert held >= {(topic, number) for number in range(3)}


def test_features_are_at_their_levels(client: Client) -> None:
    found = client.describe_features()
    assert found == {name: levels.highest for name, levels in SUPPORTED_FEATURES.items()}
