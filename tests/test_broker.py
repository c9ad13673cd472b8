"""How a broker is put together from its configuration."""

from __future__ import annotations

import pytest

from pyk.broker import listeners_of
from pyk.config.settings import BrokerSettings
from pyk.errors import KafkaError


def test_listeners_of_controllers_are_not_for_clients() -> None:
    settings = BrokerSettings(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,INSIDE://localhost:0",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "INSIDE", "CONTROLLER")
            ),
        }
    )
    assert [(each.name, each.host, each.port) for each in listeners_of(settings)] == [
        ("PLAINTEXT", "", 9092),
        ("INSIDE", "localhost", 0),
    ]


@pytest.mark.parametrize("listener", ["SSL://:9092", "SASL_PLAINTEXT://:9092"])
def test_what_is_not_plain_is_refused(listener: str) -> None:
    with pytest.raises(KafkaError, match="PLAINTEXT only"):
        listeners_of(BrokerSettings({"listeners": listener}))
