"""How a broker is put together from its configuration."""

from __future__ import annotations

import pytest

from pyk.broker import HttpWish, listeners_of, open_pages
from pyk.config.settings import BrokerSettings
from pyk.errors import KafkaError
from pyk.telemetry.http import CannotListen
from pyk.telemetry.pages import Status


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


async def test_the_usual_port_for_metrics_may_be_taken_by_another_broker() -> None:
    wish = HttpWish("127.0.0.1", None, 0)
    async with open_pages(wish, Status()) as first:
        assert first is not None
        async with open_pages(wish._replace(usual_port=first[1]), Status()) as second:
            assert second is not None
            assert second[1] != first[1]
        with pytest.raises(CannotListen):
            async with open_pages(wish._replace(port=first[1]), Status()):
                pass
