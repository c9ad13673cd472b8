"""Plots of a run, as PNG: throughput and lag over time, and how late events were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from spark_jobs.figures import JobFigures
from spark_jobs.lateness import BINS_PER_DECADE, Spread

INCHES: Final = (9, 4.8)
DOTS_PER_INCH: Final = 130
COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")


def draw_all(out: Path, jobs: Sequence[JobFigures], spread: Spread, allowed: float) -> list[Path]:
    """`allowed` is how late an event may be, in seconds."""
    out.mkdir(parents=True, exist_ok=True)
    began = min((job.batches[0].began for job in jobs if job.batches), default=0.0)
    return [
        _throughput(out / "throughput.png", jobs, began),
        _lag(out / "lag.png", jobs, began),
        _lateness(out / "lateness.png", spread, allowed),
    ]


def _throughput(path: Path, jobs: Sequence[JobFigures], began: float) -> Path:
    figure, axes = _axes("Throughput by job", "rows per second")
    for job, colour in zip(jobs, COLOURS, strict=False):
        times, rates = [], []
        for batch in job.batches:
            rate = batch.rows / batch.seconds if batch.seconds else 0.0
            times += [batch.began - began, batch.ended - began]
            rates += [rate, rate]
        axes.plot(times, rates, color=colour, linewidth=1.8, label=job.name)
        axes.fill_between(times, rates, color=colour, alpha=0.15)
    return _save(figure, axes, path)


def _lag(path: Path, jobs: Sequence[JobFigures], began: float) -> Path:
    figure, axes = _axes("Lag by job, after each micro-batch", "records still to be read")
    for job, colour in zip(jobs, COLOURS, strict=False):
        if not job.has_lag or not job.batches:
            continue
        first = job.batches[0]
        times = [first.began - began, *[batch.ended - began for batch in job.batches]]
        lags = [first.lag + first.rows, *[batch.lag for batch in job.batches]]
        axes.plot(
            times, lags, color=colour, linewidth=1.8, marker="o", markersize=4, label=job.name
        )
    return _save(figure, axes, path)


def _lateness(path: Path, spread: Spread, allowed: float) -> Path:
    figure, axes = _axes(f"Lateness of valid events: {spread.lateness}", "events")
    bins = spread.bins
    edges = [10 ** (number / BINS_PER_DECADE) for number, _ in bins]
    widths = [edge * (10 ** (1 / BINS_PER_DECADE) - 1) for edge in edges]
    counts = [count for _, count in bins]
    axes.bar(edges, counts, width=widths, align="edge", color=COLOURS[0], edgecolor="white")
    axes.axvline(allowed, color=COLOURS[4], linestyle="--", label=f"allowed: {allowed:,.0f} s")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.8)
    axes.set_xlabel("seconds between the time of an event and its sending")
    return _save(figure, axes, path)


def _axes(title: str, what: str) -> tuple[Any, Any]:
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel(what)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _save(figure: Any, axes: Any, path: Path) -> Path:
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(frameon=False, loc="upper right" if axes.get_xscale() == "linear" else "upper left")
    figure.savefig(path)
    return path
