"""Brokers that are killed in the middle of transactions of every client."""

# Not with the others: here a broker lives for one test only.
# ruff: noqa: F403
from tests.clients.transactions.test_broker_kills import *
