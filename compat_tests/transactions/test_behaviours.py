"""All that Python's clients are tried with, tried with every client and both brokers."""

# Tests are found by their names in a module: here they meet this directory's clients.
# ruff: noqa: F403
from tests.clients.transactions.test_copiers import *
from tests.clients.transactions.test_fencing import *
from tests.clients.transactions.test_outcomes import *
from tests.clients.transactions.test_readers import *
from tests.clients.transactions.test_timeouts import *
from tests.clients.transactions.test_versions import *
