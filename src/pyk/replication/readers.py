"""Who reads a partition, as its fetches tell: also those who commit nothing, as Spark does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

READERS_MAX: Final = 200
"""Of a partition. Client ids are for clients to choose, and some choose a new one all the time."""
FORGOTTEN_AFTER_MS: Final = 10 * 60_000


class Reading:
    """How far a client has come."""

    __slots__ = ("last_ms", "offset", "records")

    def __init__(self) -> None:
        self.offset = 0
        """The one after what it was sent last."""
        self.records = 0
        """How far it has come in all, in offsets."""
        self.last_ms = 0


class Readers:
    """By client id."""

    __slots__ = ("_readings",)

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}

    def note(self, client_id: str, offset: int, end_offset: int, now_ms: int) -> None:
        """A client was sent what is between the two."""
        reading = self._readings.get(client_id)
        if reading is None:
            if len(self._readings) >= READERS_MAX:
                self._make_room()
            reading = self._readings[client_id] = Reading()
        reading.offset = end_offset
        reading.records += end_offset - offset
        reading.last_ms = now_ms

    def recent(self, now_ms: int) -> Iterator[tuple[str, Reading]]:
        """Those who have read lately. The others are forgotten."""
        for client_id, reading in list(self._readings.items()):
            if now_ms - reading.last_ms > FORGOTTEN_AFTER_MS:
                del self._readings[client_id]
            else:
                yield client_id, reading

    def _make_room(self) -> None:
        """Forget the half that has not read for longest."""
        by_age = sorted(self._readings, key=lambda client_id: self._readings[client_id].last_ms)
        for client_id in by_age[: READERS_MAX // 2]:
            del self._readings[client_id]
