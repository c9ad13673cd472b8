"""All consumer groups of a shard."""

from __future__ import annotations

from typing import Any

from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.group import Caller, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.metadata.image import ClusterImage


class ConsumerGroups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    def apply(self, record: Record) -> None:
        pass

    def on_loaded(self, now: float) -> None:
        pass

    def on_image(self, image: ClusterImage, now: float) -> None:
        pass

    def expire(self, timer: Timer, now: float) -> Decision:
        return Decision()

    def describe(self, group: ConsumerGroup) -> Any:
        raise NotImplementedError

    def heartbeat(self, request: object, caller: Caller, ticket: Ticket, now: float) -> Decision:
        raise NotImplementedError

    join = sync = classic_heartbeat = leave = heartbeat
