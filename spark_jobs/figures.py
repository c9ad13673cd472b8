"""What jobs did, batch by batch, and the table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self


class Batch(NamedTuple):
    """A micro-batch, as Spark tells of it."""

    number: int
    began: float
    """Seconds since 1970."""
    seconds: float
    rows: int
    lag: int
    """Records that were there and were still to be read after it."""
    dropped: int
    """Rows that came after the watermark and were dropped."""

    @classmethod
    def of_progress(cls, progress: Mapping[str, Any]) -> Self:
        """Of a StreamingQueryProgress, as JSON."""
        return cls(
            number=progress["batchId"],
            began=datetime.fromisoformat(progress["timestamp"]).timestamp(),
            seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
            rows=sum(_rows(source) for source in progress["sources"]),
            lag=sum(_lag(source) for source in progress["sources"]),
            dropped=sum(
                operator.get("numRowsDroppedByWatermark", 0)
                for operator in progress.get("stateOperators", [])
            ),
        )

    @property
    def ended(self) -> float:
        return self.began + self.seconds


@dataclass(slots=True)
class JobFigures:
    name: str
    seconds: float = 0.0
    """From its start to its end."""
    rows_out: int = 0
    batches: list[Batch] = field(default_factory=list)
    has_lag: bool = True
    """Not if it reads no topic."""

    @property
    def rows_in(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def rate(self) -> float:
        return self.rows_in / self.seconds if self.seconds else 0.0

    def batch_seconds(self, percent: int) -> float:
        return percentile([batch.seconds for batch in self.batches], percent)

    @property
    def lag_max(self) -> int:
        return max((batch.lag for batch in self.batches), default=0)

    @property
    def lag_at_the_end(self) -> int:
        return self.batches[-1].lag if self.batches else 0

    @property
    def dropped(self) -> int:
        return sum(batch.dropped for batch in self.batches)


class Lateness(NamedTuple):
    """How long after their time events were sent, in seconds."""

    p50: float
    p95: float
    max: float

    def __str__(self) -> str:
        return f"p50 {self.p50:,.1f} s, p95 {self.p95:,.1f} s, max {self.max:,.1f} s"


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent are not above. Of nothing, 0."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def table_of(jobs: Sequence[JobFigures]) -> str:
    heading = ["job", "rows in", "rows out", "seconds", "rows/s", "batches", "p50 s", "p95 s"]
    heading += ["dropped late", "lag max", "lag at end"]
    rows = [heading, *[_row(job) for job in jobs]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _row(job: JobFigures) -> list[str]:
    figures = [f"{job.rows_in:,}", f"{job.rows_out:,}", f"{job.seconds:.1f}", f"{job.rate:,.0f}"]
    figures += [str(len(job.batches))]
    figures += [f"{job.batch_seconds(percent):.2f}" for percent in (50, 95)]
    figures += [f"{job.dropped:,}"]
    lags = [f"{job.lag_max:,}", f"{job.lag_at_the_end:,}"]
    figures += lags if job.has_lag else ["-", "-"]
    return [job.name, *figures]


def _rows(source: Mapping[str, Any]) -> int:
    """How many were read. Spark counts records twice that it reads for both sides of a join."""
    counted: int = source["numInputRows"]
    start, end = source.get("startOffset") or {}, source.get("endOffset")
    return min(counted, _distance(start, end)) if end else counted


def _lag(source: Mapping[str, Any]) -> int:
    latest, end = source.get("latestOffset"), source.get("endOffset")
    return _distance(end, latest) if latest and end else 0


def _distance(start: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """Between offsets of topics and their partitions."""
    return sum(
        offset - start.get(topic, {}).get(partition, 0)
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )
