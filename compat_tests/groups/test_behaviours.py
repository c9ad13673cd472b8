"""All that groups of Python's clients are tried with, tried with every client and both brokers."""

# Tests are found by their names in a module: here they meet this directory's members.
# ruff: noqa: F403
from tests.clients.groups.test_deliveries import *
from tests.clients.groups.test_membership import *
from tests.clients.groups.test_new_partitions import *
from tests.clients.groups.test_offsets import *
from tests.clients.groups.test_patterns import *
from tests.clients.groups.test_racks import *
from tests.clients.groups.test_static_members import *
