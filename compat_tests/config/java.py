"""What Kafka's classes and Java's say about configuration that is not in a running broker."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable
from pathlib import Path

from compat_tests.kafka import jars

SOURCE = Path(__file__).with_name("ConfigOracle.java")
TIMEOUT = 120.0


def asked_java(what: str, texts: Iterable[str] = ()) -> list[str]:
    """The lines of an answer. Raises `jars.Missing`."""
    command = jars.java_command("ConfigOracle", what, classes=jars.compiled(SOURCE))
    lines = b"".join(base64.b64encode(text.encode()) + b"\n" for text in texts)
    done = subprocess.run(command, input=lines, capture_output=True, timeout=TIMEOUT, check=True)
    return done.stdout.decode().splitlines()


def entries(what: str, texts: Iterable[str]) -> list[dict[str, str] | None]:
    """The properties that Java finds in each text. None where it finds the text malformed."""
    return [_entries(line) for line in asked_java(what, texts)]


def values(questions: Iterable[tuple[str, str, str]]) -> list[str | None]:
    """What Kafka makes of texts for keys, each with its scope. None where it refuses one."""
    lines = asked_java("values", ["\n".join(question) for question in questions])
    return [None if line == "refused" else _decoded(line) for line in lines]


def _entries(line: str) -> dict[str, str] | None:
    if line == "malformed":
        return None
    pairs = (entry.partition("=") for entry in line.split())
    return {_decoded(name): _decoded(value) for name, _, value in pairs}


def _decoded(text: str) -> str:
    padded = text + "=" * (-len(text) % 4)
    return base64.urlsafe_b64decode(padded).decode("utf-16-be", "surrogatepass")
