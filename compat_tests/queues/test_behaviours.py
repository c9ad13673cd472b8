"""All that Python's client is tried with, tried with every client and both brokers."""

# Tests are found by their names in a module: here they meet this directory's clients.
# ruff: noqa: F403
from tests.clients.queues.test_acknowledgements import *
from tests.clients.queues.test_deliveries import *
from tests.clients.queues.test_isolation import *
from tests.clients.queues.test_limits import *
from tests.clients.queues.test_locks import *
from tests.clients.queues.test_sharing import *
from tests.clients.queues.test_starting_points import *
from tests.clients.queues.test_topics import *
