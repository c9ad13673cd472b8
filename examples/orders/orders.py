"""A small application: it sends orders, and waits until they are safe."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer


class NotSent(Exception):
    """The order is not in the log, or nobody knows."""


class Orders:
    def __init__(self, servers: str, topic: str, timeout_ms: int = 5000) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "orders",
                "enable.idempotence": True,
                "message.timeout.ms": timeout_ms,
            }
        )

    def send(self, order: dict[str, Any]) -> int:
        """The offset of the order. Raise NotSent."""
        told: list[Any] = []
        self._producer.produce(
            self._topic, json.dumps(order), on_delivery=lambda *what: told.append(what)
        )
        self._producer.flush()
        error, message = told[0]
        if error is not None:
            raise NotSent(error.str())
        return int(message.offset())
