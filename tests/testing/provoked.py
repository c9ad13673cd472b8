"""What each client must say of each failure, and that it is well again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyk.testing import Fault, Faults, ThreadBroker
from tests.testing.clients import Client

Provoke = Callable[[Faults], Fault]

SURVIVED: Final[Mapping[str, Provoke]] = {
    "refused twice": lambda f: f.on("Produce", times=2).refuse("NOT_LEADER_OR_FOLLOWER"),
    "refused by the disk": lambda f: f.on("Produce", times=1).refuse("KAFKA_STORAGE_ERROR"),
    "cut before": lambda f: f.on("Produce", times=1).cut_before(),
    "cut after": lambda f: f.on("Produce", times=1).cut_after(),
    "late": lambda f: f.on("Produce", times=1).delay(0.3),
}
"""An idempotent producer delivers through these, once."""

REPORTED: Final[Mapping[str, Provoke]] = {
    "not allowed": lambda f: f.on("Produce").refuse("TOPIC_AUTHORIZATION_FAILED"),
    "too large": lambda f: f.on("Produce").refuse("MESSAGE_TOO_LARGE"),
    "never answered": lambda f: f.on("Produce").drop_request(),
    "frozen": lambda f: f.freeze(),
    "full": lambda f: f.fill_disk(),
}
"""Of these a producer tells its user."""


def check_survived(broker: ThreadBroker, client: Client) -> None:
    """With an idempotent client."""
    for name, provoke in SURVIVED.items():
        topic = broker.topic()
        assert client.deliver(topic) == "ok", name
        with provoke(broker.faults) as fault:
            assert client.deliver(topic) == "ok", name
            assert fault.hits >= 1, name
        assert client.deliver(topic) == "ok", name
        assert len(broker.records(topic)) == 3, name


def check_reported(broker: ThreadBroker, client: Client, said: Mapping[str, str]) -> None:
    for name, provoke in REPORTED.items():
        topic = broker.topic()
        assert client.deliver(topic) == "ok", name
        with provoke(broker.faults) as fault:
            outcome = client.deliver(topic)
            assert outcome == said[name], f"{outcome} when {name}"
            assert fault.hits >= 1, name
        # A client may remember of a topic that it is not allowed there.
        outcome = client.deliver(broker.topic())
        assert outcome == "ok", f"{outcome} after {name}"
