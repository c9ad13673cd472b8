"""Brokers that are quick with share groups."""

from __future__ import annotations

from tests.clients.brokers import options_for

BROKER_SETTINGS = {
    "group.share.min.session.timeout.ms": "500",
    "group.share.min.heartbeat.interval.ms": "150",
    "group.share.heartbeat.interval.ms": "150",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "log.cleaner.backoff.ms": "50",
}
"""The least that a broker lets groups ask for, and no waiting."""


def options() -> list[str]:
    """Of `pyk serve`."""
    return options_for(BROKER_SETTINGS)
