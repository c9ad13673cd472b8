"""In which parts a stream is sent, and when, by a clock that the test moves."""

from __future__ import annotations

from spark_jobs.pacing import Chunk, chunks, paced_chunks


class Clock:
    def __init__(self, stops_at: float = 1000.0) -> None:
        self.time = 100.0
        self._stops_at = stops_at

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> bool:
        self.time += seconds
        return self.time >= self._stops_at


def sent(clock: Clock, events: int, *takes: float) -> list[tuple[float, Chunk]]:
    """When each chunk was begun, if sending them takes so long."""
    found = []
    for chunk, seconds in zip(paced_chunks(events, 10, clock.now, clock.wait), takes, strict=True):
        found.append((clock.time, chunk))
        clock.time += seconds
    return found


def test_a_batch_is_sent_in_parts_that_leave_nothing_out() -> None:
    for events in (1, 4999, 5000, 5001, 240_001):
        parts = list(chunks(events))
        numbers = [n for part in parts for n in range(part.first, part.first + part.size)]
        assert numbers == list(range(events))
        assert len(parts) <= 24


def test_a_second_of_events_is_sent_in_each_second() -> None:
    assert sent(Clock(), 25, 0.5, 0.25, 0.5) == [
        (100.0, Chunk(0, 10)),
        (101.0, Chunk(10, 10)),
        (102.0, Chunk(20, 5)),
    ]


def test_a_second_that_took_too_long_is_caught_up_with() -> None:
    assert [time for time, _ in sent(Clock(), 40, 2.5, 0.25, 0.0, 0.0)] == [
        100.0,
        102.5,
        102.75,
        103.0,
    ]


def test_nothing_is_sent_when_it_is_stopped() -> None:
    assert [chunk for _, chunk in sent(Clock(stops_at=101.0), 25, 0.5)] == [Chunk(0, 10)]
