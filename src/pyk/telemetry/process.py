"""The process: memory, time, descriptors, garbage, by the names that Prometheus knows them by."""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyk.metrics import Family, Histogram, Sample, counter, gauge, histogram, measured, one

PROC: Final = Path("/proc/self")


class GarbageCollection:
    """How long the collector has stopped everything else."""

    def __init__(self) -> None:
        self.pauses = Histogram()
        self._began = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        gc.callbacks.append(self._note)
        try:
            yield
        finally:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, details: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.perf_counter_ns()
        elif self._began:
            self.pauses.add(time.perf_counter_ns() - self._began)


def process_families() -> Iterator[Family]:
    """Each looks for itself: without descriptors, some of them find nothing."""
    cpu = measured(_processor_seconds)
    yield counter("process_cpu_seconds_total", "Processor time of the process.", cpu)
    if PROC.exists():
        resident = measured(_resident_bytes)
        yield gauge("process_resident_memory_bytes", "Resident memory.", resident)
        started = measured(_started_seconds)
        yield gauge("process_start_time_seconds", "When it began, since 1970.", started)
        descriptors = measured(_open_descriptors)
        yield gauge("process_open_fds", "Open file descriptors.", descriptors)
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield gauge("process_max_fds", "How many there may be.", one(allowed))


def python_families(garbage: GarbageCollection) -> Iterator[Family]:
    collections = [
        Sample({"generation": str(number)}, found["collections"])
        for number, found in enumerate(gc.get_stats())
    ]
    yield counter("python_gc_collections_total", "Runs of the garbage collector.", collections)
    pauses = one(garbage.pauses)
    yield histogram("pyk_gc_pause_seconds", "Time in the garbage collector, by run.", pauses)
    version = ".".join(map(str, sys.version_info[:3]))
    python = [Sample({"implementation": sys.implementation.name, "version": version}, 1)]
    yield gauge("python_info", "The interpreter.", python)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes() -> int:
    return int((PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_descriptors() -> int:
    """Since Linux 6.2 the directory says how many names it has. There may be tens of thousands, and
    to make a list of them takes as many microseconds."""
    directory = PROC / "fd"
    return os.stat(directory).st_size or len(os.listdir(directory))


def _started_seconds() -> float:
    after_name = (PROC / "stat").read_text().rpartition(")")[2].split()
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + int(after_name[19]) / os.sysconf("SC_CLK_TCK")
