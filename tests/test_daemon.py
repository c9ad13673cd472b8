"""A broker as a process shows its pages where it can."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from pyk.broker import World
from pyk.config.settings import BrokerSettings
from pyk.daemon import HttpWish, Opened, open_pages, serve
from pyk.log.recovery import Recovery
from pyk.offload import in_thread
from pyk.telemetry.http import CannotListen
from pyk.telemetry.pages import Status
from pyk.testing import serve_in_thread
from tests.telemetry.test_http import request_for

T = TypeVar("T")
PAGES = HttpWish("127.0.0.1", 0, 0)


async def test_the_usual_port_for_metrics_may_be_taken_by_another_broker() -> None:
    wish = HttpWish("127.0.0.1", None, 0)
    async with open_pages(wish, Status()) as first:
        assert first is not None
        async with open_pages(wish._replace(usual_port=first[1]), Status()) as second:
            assert second is not None
            assert second[1] != first[1]
        with pytest.raises(CannotListen):
            async with open_pages(wish._replace(port=first[1]), Status()):
                pass


def test_a_process_that_lives_for_long_imports_all_of_its_code_soon_after_its_start() -> None:
    """What was imported later could be of another version, if the package is upgraded under it."""
    program = """
import sys, trio
from pyk import daemon
from pyk.handlers.table import SERVED
trio.run(daemon.import_the_rest)
wanted = {f"pyk.handlers.{key.name.lower()}" for key in SERVED} | set(daemon.NEEDED_LATER)
print(wanted - set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


async def shown(address: tuple[str, int], target: str) -> tuple[int, str]:
    """Status and body."""
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(request_for(target))
        head, _, body = (await stream.receive_some()).decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_a_start_shows_how_far_recovery_is() -> None:
    status = Status()
    async with open_pages(PAGES, status) as address:
        assert address is not None
        assert await shown(address, "/live") == (200, "alive\n")
        assert await shown(address, "/ready") == (503, "starting\n")
        status.recovery.logs, status.recovery.logs_total = 12, 340
        status.recovery.bytes, status.recovery.bytes_total = 2**30, 35 * 2**30
        line = "recovering logs: 12 of 340, 1.0 of 35.0 GiB\n"
        assert await shown(address, "/live") == (200, f"alive\n{line}")
        assert await shown(address, "/ready") == (503, f"starting\n{line}")
        code, metrics = await shown(address, "/metrics")
        assert code == 200
        assert "\npyk_recovery_logs_done 12\n" in metrics
        assert "\npyk_recovery_bytes 37580963840\n" in metrics
        status.is_stopping = True
        assert await shown(address, "/ready") == (503, "stopping\n")


def local(path: Path) -> BrokerSettings:
    return BrokerSettings(
        {
            "log.dirs": str(path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "num.recovery.threads.per.data.dir": "1",
        }
    )


async def test_a_signal_ends_a_start_that_takes_long(tmp_path: Path) -> None:
    begun = trio.Event()

    async def takes_long(run: Callable[[], T], /) -> T:
        begun.set()
        await trio.sleep_forever()
        return run()

    def announce(opened: Opened) -> None:
        raise AssertionError("it was never open")

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, local(tmp_path), announce, None, World(offload=takes_long))
            await begun.wait()
            os.kill(os.getpid(), signal.SIGTERM)


async def test_logs_that_are_recovered_are_counted_on_the_pages_and_a_signal_is_heard(
    tmp_path: Path,
) -> None:
    with serve_in_thread(data_dir=tmp_path, topics={"t": 3}) as broker:
        for partition in range(3):
            broker.produce("t", b"v", partition=partition)
        broker.kill()
    recovery, is_recovering = Recovery(), trio.Event()

    async def gated(run: Callable[[], T], /) -> T:
        if recovery.logs_total and not is_recovering.is_set():
            is_recovering.set()
            await trio.sleep_forever()
        return await in_thread(run)

    def announce(opened: Opened) -> None:
        raise AssertionError("it was never open")

    with trio.fail_after(20):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()
        pages = HttpWish("127.0.0.1", address[1], 0)
        world = World(offload=gated, recovery=recovery)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, local(tmp_path), announce, pages, world)
            await is_recovering.wait()
            code, body = await shown(address, "/ready")
            assert (code, body.splitlines()[0]) == (503, "starting")
            assert "recovering logs: 0 of 3" in body
            assert (await shown(address, "/live"))[0] == 200
            os.kill(os.getpid(), signal.SIGTERM)


async def test_a_signal_ends_a_broker_in_good_order(tmp_path: Path) -> None:
    opened: list[Opened] = []
    recovery = Recovery()
    for _ in range(2):
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                world = World(offload=in_thread, recovery=recovery)
                nursery.start_soon(serve, local(tmp_path), opened.append, PAGES, world)
                while not opened:
                    await trio.lowlevel.checkpoint()
                address = opened.pop().http
                assert address is not None
                assert await shown(address, "/ready") == (200, "ready\n")
                os.kill(os.getpid(), signal.SIGTERM)
        assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_without_descriptors_what_is_needed_later_is_imported_later() -> None:
    program = """
import resource, sys, trio
from pyk import daemon
from pyk.handlers.table import SERVED

async def main():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with trio.open_nursery() as nursery:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        nursery.start_soon(daemon.import_the_rest)
        await trio.testing.wait_all_tasks_blocked()
        assert "pyk.handlers.fetch" not in sys.modules
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

import trio.testing
trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
print({f"pyk.handlers.{key.name.lower()}" for key in SERVED} - set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
    assert "not imported yet" in done.stderr
