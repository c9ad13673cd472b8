"""The `pyk` command as a user runs it, with its output in a file, in a pipe or on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile

from pyk.cli import main

COMMAND = [sys.executable, "-m", "pyk"]
TIMEOUT = 120


@dataclass(frozen=True)
class Done:
    out: str
    err: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def pyk(
    *arguments: str,
    bootstrap: str | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] = {},
) -> Done:
    """What a command prints into files: in this process, which takes a tenth of the time that
    starting another one would."""
    with (
        TemporaryFile("w+") as given,
        TemporaryFile("w+") as out,
        TemporaryFile("w+") as err,
        swapped({**environment(bootstrap), **variables}),
    ):
        given.buffer.write(stdin)
        given.seek(0)
        before = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = given, out, err
        try:
            main(list(arguments), prog_name="pyk")
        except SystemExit as ended:
            code = ended.code
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
        assert isinstance(code, int)
        for file in (out, err):
            file.seek(0)
        return Done(out.read(), err.read(), code)


def pyk_process(*arguments: str, bootstrap: str | None = None) -> Done:
    """What a command prints into pipes, in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment(bootstrap),
        timeout=TIMEOUT,
        check=False,
    )
    return Done(done.stdout, done.stderr, done.returncode)


def pyk_on_terminal(*arguments: str, bootstrap: str | None = None, typed: str = "") -> Done:
    """What a command shows on a terminal where all of this was typed ahead."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(bootstrap),
        start_new_session=True,
    ) as process:
        os.close(theirs)
        if typed:
            os.write(ours, typed.encode())
        shown = bytearray()
        while data := _read(ours):
            shown += data
        code = process.wait(TIMEOUT)
    os.close(ours)
    return Done(shown.decode().replace("\r\n", "\n"), "", code)


def environment(bootstrap: str | None) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
    kept.pop("PYK_BOOTSTRAP_SERVER", None)
    kept["COLUMNS"] = "100"
    return kept if bootstrap is None else {**kept, "PYK_BOOTSTRAP_SERVER": bootstrap}


@contextmanager
def swapped(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        # Linux says so when the last process has closed its side of a terminal.
        return b""
