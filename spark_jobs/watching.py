"""Queries as they run: a line for each micro-batch, or bars where there is a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, TextIO

from spark_jobs.figures import Batch, JobFigures

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

LOOK_EVERY: Final = 1.0
BAR: Final = 20
CLEAR: Final = "\r\x1b[K"


@dataclass(slots=True)
class Running:
    query: StreamingQuery
    figures: JobFigures
    began: float = field(default_factory=time.monotonic)
    is_over: bool = False

    def look(self) -> list[Batch]:
        """Batches that were not seen before. Raise what the query failed with."""
        is_active = self.query.isActive
        last = self.figures.batches[-1].number if self.figures.batches else -1
        told = [Batch.of_progress(_as_json(each)) for each in self.query.recentProgress]
        new = [batch for batch in told if batch.number > last]
        self.figures.batches += new
        if not is_active and not self.is_over:
            self.is_over = True
            self.figures.seconds = time.monotonic() - self.began
            if (failure := self.query.exception()) is not None:
                raise failure
        return new


class Display:
    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stdout
        self._is_terminal = self._to.isatty()

    def say(self, text: str) -> None:
        prefix = CLEAR if self._is_terminal else ""
        print(f"{prefix}{text}", file=self._to, flush=True)

    def batch(self, name: str, batch: Batch) -> None:
        if not self._is_terminal:
            self.say(line_of(name, batch))

    def bars(self, jobs: Sequence[JobFigures]) -> None:
        if self._is_terminal:
            shown = "   ".join(bar_of(job) for job in jobs)
            width = get_terminal_size().columns - 1
            print(f"{CLEAR}{shown[:width]}", end="", file=self._to, flush=True)


def line_of(name: str, batch: Batch) -> str:
    rate = batch.rows / batch.seconds if batch.seconds else 0.0
    return (
        f"{name:12} batch {batch.number:3}  {batch.rows:9,} rows in {batch.seconds:6.2f} s"
        f"  {rate:9,.0f} rows/s  lag {batch.lag:,}"
    )


def bar_of(job: JobFigures) -> str:
    left = job.lag_at_the_end
    share = job.rows_in / (job.rows_in + left) if job.rows_in else 0.0
    filled = round(share * BAR)
    return f"{job.name} [{'#' * filled}{'.' * (BAR - filled)}] {share:4.0%} {job.rows_in:,} rows"


def watch(running: Sequence[Running], display: Display) -> None:
    """Until all of them have ended. Raise what one of them failed with."""
    while not all(each.is_over for each in running):
        for each in running:
            for batch in each.look():
                display.batch(each.figures.name, batch)
        display.bars([each.figures for each in running])
        active = [each for each in running if not each.is_over]
        if active:
            active[0].query.awaitTermination(LOOK_EVERY)
    for each in running:
        figures = each.figures
        display.say(
            f"{figures.name}: {figures.rows_in:,} rows in {figures.seconds:.1f} s,"
            f" {len(figures.batches)} batches"
        )


def _as_json(progress: Any) -> Mapping[str, Any]:
    """Spark 3 has dictionaries; the objects of Spark 4 know their JSON."""
    found: Mapping[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else progress
    return found
