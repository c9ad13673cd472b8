"""How runs of the pipeline end that do not come to their end: killed, and interrupted."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyk.testing import ThreadBroker, serve_in_thread

pytestmark = pytest.mark.timeout(1800)
PATIENCE = 600.0
EVENTS = 6000


@contextmanager
def started(out: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run, in a group of processes of its own, which ends with the block. What it says is in a
    file."""
    command = [sys.executable, "-m", "spark_jobs.pipeline", "--master", "local[2]"]
    command += ["--events", str(EVENTS), "--batches", "2", "--out", str(out), *more]
    with (
        said(out).open("ab") as output,
        subprocess.Popen(
            command, start_new_session=True, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def said(out: Path) -> Path:
    return out.with_suffix(".txt")


def kill_when_it_holds(broker: ThreadBroker, topic: str, out: Path) -> None:
    """Start a run and kill it when it has written to a topic and has not heard of it."""
    with (
        broker.faults.on("Produce", topic=topic).hold() as held,
        started(out, "--bootstrap-servers", broker.bootstrap_servers) as process,
    ):
        held.wait(timeout=PATIENCE)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def batches_under_way(out: Path, job: str) -> set[int]:
    """Those that were begun, and not committed."""
    begun, done = [
        {int(path.name) for path in (out / "checkpoints" / job / kind).glob("[0-9]*")}
        for kind in ("offsets", "commits")
    ]
    return begun - done


def test_a_run_that_is_killed_goes_on_and_counts_each_event_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serve_in_thread() as broker:
        kill_when_it_holds(broker, "events.clean", out)
        assert batches_under_way(out, "ingest") == {0}
        kill_when_it_holds(broker, "revenue.hourly", out)
        assert batches_under_way(out, "aggregate") == {0}
        assert list((out / "revenue" / "batch=0").glob("date=*/*.parquet"))
        with started(out, "--bootstrap-servers", broker.bootstrap_servers) as process:
            code = process.wait(PATIENCE)
        text = said(out).read_text()
        assert code == 0, text
        assert re.search(r"ok +table of revenue +order ", text), text
        written = [record.value for record in broker.records("events.clean")]
    assert len(set(written)) < len(written), "the batch that was killed had written nothing"


def test_an_interrupt_ends_the_run_and_its_broker(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with started(out) as process:
        wait_until(lambda: "rows/s" in said(out).read_text(), process)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE)
    text = said(out).read_text()
    assert code == 130, text
    assert "Interrupted" in text
    assert "Traceback" not in text
    found = re.search(r"broker at ([\d.]+):(\d+)", text)
    assert found is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((found[1], int(found[2])), timeout=5)


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)
