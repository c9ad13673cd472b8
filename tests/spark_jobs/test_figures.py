"""What is shown of jobs: batches of Spark's progress, lines, bars, and the table of all."""

from __future__ import annotations

import io
from typing import Any

import pytest

from spark_jobs.figures import Batch, JobFigures, percentile, table_of
from spark_jobs.watching import Display, bar_of, line_of

PROGRESS: dict[str, Any] = {
    "batchId": 4,
    "timestamp": "2026-01-01T00:00:10.500Z",
    "durationMs": {"addBatch": 1800, "triggerExecution": 2000},
    "stateOperators": [{"numRowsDroppedByWatermark": 3}, {"numRowsDroppedByWatermark": 1}],
    "sources": [
        {
            "numInputRows": 1000,
            "startOffset": {"events": {"0": 0, "1": 0}},
            "endOffset": {"events": {"0": 700, "1": 300}},
            "latestOffset": {"events": {"0": 1000, "1": 350}},
        }
    ],
}


def job(*seconds: float) -> JobFigures:
    batches = [Batch(n, n, each, 100, 300 - 100 * n, 1) for n, each in enumerate(seconds)]
    return JobFigures("ingest", seconds=10.0, rows_out=290, batches=batches)


def test_a_batch_is_read_from_what_spark_tells() -> None:
    batch = Batch.of_progress(PROGRESS)
    assert batch == Batch(4, 1767225610.5, 2.0, 1000, lag=350, dropped=4)
    assert batch.ended == 1767225612.5


def test_a_source_that_does_not_know_how_far_it_is_has_no_lag() -> None:
    source = {"numInputRows": 7, "startOffset": None, "endOffset": None, "latestOffset": None}
    batch = Batch.of_progress({**PROGRESS, "sources": [source]})
    assert (batch.rows, batch.lag) == (7, 0)


def test_records_that_are_read_for_both_sides_of_a_join_are_counted_once() -> None:
    twice = [{**PROGRESS["sources"][0], "numInputRows": 2000}]
    assert Batch.of_progress({**PROGRESS, "sources": twice}).rows == 1000


@pytest.mark.parametrize(("percent", "value"), [(1, 1.0), (50, 2.0), (75, 3.0), (95, 4.0)])
def test_a_percentile_is_one_of_the_values(percent: int, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value


def test_a_percentile_of_nothing_is_nothing() -> None:
    assert percentile([], 95) == 0.0


def test_the_table_has_a_row_for_each_job() -> None:
    heading, row, idle = table_of([job(1.0, 5.0, 2.0, 3.0), JobFigures("idle")]).splitlines()
    columns = dict(zip(heading.replace("  ", "|").split("|"), row.split("  "), strict=False))
    assert len(heading) == len(row) == len(idle)
    assert columns["job"].strip() == "ingest"
    assert row.split() == [
        "ingest", "400", "290", "10.0", "40", "4", "2.00", "5.00", "4", "300", "0",
    ]  # fmt: skip


def test_a_pipe_gets_a_line_for_each_batch_and_no_bars() -> None:
    to = io.StringIO()
    display = Display(to)
    display.batch("ingest", job(2.0).batches[0])
    display.bars([job(2.0)])
    assert to.getvalue() == line_of("ingest", job(2.0).batches[0]) + "\n"
    assert "100 rows in   2.00 s         50 rows/s  lag 300" in to.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_bars_in_place_and_no_lines() -> None:
    to = Terminal()
    display = Display(to)
    display.batch("ingest", job(2.0).batches[0])
    display.bars([job(2.0, 2.0)])
    assert to.getvalue() == f"\r\x1b[K{bar_of(job(2.0, 2.0))}"
    assert bar_of(job(2.0, 2.0)) == "ingest [##########..........]  50% 200 rows"
