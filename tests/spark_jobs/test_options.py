"""What jobs are told, and what comes of it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from spark_jobs.options import (
    Streaming,
    add_streaming_options,
    interruptible,
    parser,
    session_settings,
    streaming,
)

if TYPE_CHECKING:
    import argparse


def parsed(*words: str) -> argparse.Namespace:
    made = parser("ingest", "A job.")
    add_streaming_options(made)
    return made.parse_args(words)


def test_a_streaming_job_is_as_it_was_told() -> None:
    words = ["--bootstrap-servers", "far:9092", "--checkpoints", "/there", "--per-batch", "7"]
    assert streaming(parsed(*words, "--every", "2.5")) == Streaming(
        bootstrap_servers="far:9092", checkpoints="/there", per_batch=7, every=2.5
    )


def test_a_job_that_is_told_nothing_else_ends() -> None:
    assert streaming(parsed("--checkpoints", "/there")).every is None


def test_a_job_does_not_begin_anew_because_nobody_said_where_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parsed()
    assert "--checkpoints" in capsys.readouterr().err


def test_one_machine_is_not_treated_as_a_cluster() -> None:
    size = "spark.sql.shuffle.partitions"
    submitted = {"PYSPARK_GATEWAY_PORT": "1"}
    assert size in session_settings(None, {})
    assert size in session_settings("local[4]", submitted)
    assert size not in session_settings(None, submitted)
    assert size not in session_settings("spark://host:7077", {})


def test_an_interrupt_stops_the_work_and_is_raised_when_it_has_ended() -> None:
    begun, stop, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        stop.wait()
        ended.set()

    def pretend_ctrl_c() -> None:
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=pretend_ctrl_c)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(work, stop.set)
    thread.join()
    assert ended.is_set()


def test_work_that_ends_by_itself_is_not_stopped() -> None:
    stop = threading.Event()
    assert interruptible(lambda: 42, stop.set) == 42
    assert not stop.is_set()
