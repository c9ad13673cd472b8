"""Transactions that a broker has to end when it comes back: of every client, and of pyk alone.

Kafka 4.3.1 takes a partition that has no leader for one that was deleted, and when it comes back
from a kill none has a leader for a while. A transaction that times out then is complete without its
marker, and readers of committed records wait for ever. After commits that it had acknowledged they
were seen to wait a minute in vain, too, with two clients of six.
"""

# ruff: noqa: F403
import pytest

from tests.clients.transactions.test_unfinished import *

pytestmark = pytest.mark.parametrize("mortal", ["pyk"], indirect=True)
