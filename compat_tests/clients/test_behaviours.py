"""All that the clients of `make test` are tried with, tried with Kafka's own client and kcat."""

# Tests are found by their names in a module: here they meet this directory's clients.
# ruff: noqa: F403
from tests.clients.test_cluster import *
from tests.clients.test_configs import *
from tests.clients.test_positions import *
from tests.clients.test_producers import *
from tests.clients.test_records import *
from tests.clients.test_sizes import *
from tests.clients.test_topics import *
