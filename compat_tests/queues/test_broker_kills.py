"""Brokers that are killed while members of every client work."""

# Not with the others: here a broker lives for one test only.
# ruff: noqa: F403
import pytest

from tests.clients.queues.test_broker_kills import *

pytestmark = pytest.mark.queues
"""Each takes some seconds, of Kafka half a minute."""
