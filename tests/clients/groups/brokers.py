"""Brokers that are quick with groups."""

from __future__ import annotations

from tests.clients.brokers import options_for

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "150",
    "group.consumer.min.heartbeat.interval.ms": "150",
    "group.consumer.assignment.interval.ms": "0",
}
"""The least that a broker lets its members ask for, and no waiting."""


def options() -> list[str]:
    """Of `pyk serve`."""
    return options_for(BROKER_SETTINGS)
