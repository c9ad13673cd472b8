"""A broker as a process shows its pages where it can."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyk.daemon import HttpWish, open_pages
from pyk.telemetry.http import CannotListen
from pyk.telemetry.pages import Status


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
