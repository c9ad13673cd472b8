"""All attacks that pyk is tried with, tried with Apache Kafka too, which judges them."""

# Tests are found by their names in a module: here they meet this directory's brokers.
# ruff: noqa: F403
from tests.adversary.test_attacks import *
