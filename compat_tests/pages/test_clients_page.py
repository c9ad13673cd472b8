"""What docs/clients.md shows is so: every program of it is run, by the commands that it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.kafka import jars
from tests.cli.commands import environment, pyk
from tests.clients.brokers import running
from tests.pages import all_blocks, blocks, page, sections

PAGE = page("docs/clients.md")
SECTIONS = sections(PAGE)
FILES = {"python": "orders.py", "java": "Orders.java", "go": "main.go", "js": "orders.mjs"}
PRINTED = blocks(PAGE, "text")[0]
ADDRESS = "localhost:9092"

NEEDS_MORE_THAN_JAVA = ("kcat", "Go: franz-go", "Node: kafkajs")
DOWNLOAD_TIMEOUT = 900


def of_the_page(heading: str) -> object:
    more = (pytest.mark.clients, pytest.mark.timeout(DOWNLOAD_TIMEOUT))
    return pytest.param(heading, marks=more if heading in NEEDS_MORE_THAN_JAVA else ())


@pytest.mark.parametrize("heading", [of_the_page(heading) for heading in SECTIONS])
def test_a_program_of_the_page_prints_what_the_page_says(heading: str, tmp_path: Path) -> None:
    with running(tmp_path / "data") as broker:
        printed = run(SECTIONS[heading], broker.address, tmp_path)
        kept = pyk("consume", "orders", "-e", "-f", r"%o %v\n", bootstrap=broker.address)
    assert printed.endswith(PRINTED)
    assert kept.out == PRINTED


def run(section: str, address: str, directory: Path) -> str:
    """What a section's program prints when it is saved and its commands are typed there."""
    for language, body in all_blocks(section):
        if language in FILES:
            (directory / FILES[language]).write_text(body.replace(ADDRESS, address))
    if blocks(section, "java"):
        (directory / "lib").symlink_to(jars.library())
    if blocks(section, "python"):
        commands = f"python {FILES['python']}"
    else:
        (commands,) = blocks(section, "sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-euc", commands.replace(ADDRESS, address)],
        cwd=directory,
        env={**environment(address), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_setting_that_the_page_shows_is_what_clients_are_told(tmp_path: Path) -> None:
    shown = re.search(r"pyk serve .*-o (advertised\.listeners=PLAINTEXT://(\S+):(\d+))`", PAGE)
    assert shown is not None
    with running(tmp_path, "-o", shown[1]) as broker:
        told = pyk("cluster", "describe", "--format", "json", bootstrap=broker.address).out
    (place,) = json.loads(told)["brokers"]
    assert (place["host"], place["port"]) == (shown[2], int(shown[3]))


def test_no_block_of_the_page_is_left_out() -> None:
    inside = [block for body in SECTIONS.values() for block in all_blocks(body)]
    assert all_blocks(PAGE) == [("text", PRINTED), *inside]
    assert {language for language, _ in inside} == {*FILES, "sh"}
    assert PAGE.count("```") == 2 * len(all_blocks(PAGE))


def test_what_needs_more_than_java_is_on_the_page() -> None:
    assert set(NEEDS_MORE_THAN_JAVA) <= set(SECTIONS)
