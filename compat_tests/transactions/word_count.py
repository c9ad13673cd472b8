"""Kafka Streams counting words exactly once, which dies as often as it is told."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.kafka import jars
from compat_tests.transactions.kinds import PROGRAMS, QUIET

PROGRAM = PROGRAMS / "WordCount.java"


class WordCount:
    """Its lives, one after the other, at a directory that outlives them."""

    def __init__(
        self,
        version: str,
        *,
        address: str,
        application_id: str,
        source: str,
        target: str,
        home: Path,
    ) -> None:
        self.application_id = application_id
        self._version = version
        self._home = home
        self._arguments = (address, application_id, str(home / "state"), source, target)
        self.lives = 0

    @property
    def repartition_topic(self) -> str:
        return f"{self.application_id}-words-repartition"

    @property
    def changelog_topic(self) -> str:
        return f"{self.application_id}-counts-changelog"

    @contextmanager
    def life(self) -> Iterator[subprocess.Popen[bytes]]:
        """From its start to a kill -9."""
        self.lives += 1
        with (
            (self._home / f"life-{self.lives}.log").open("wb") as log,
            subprocess.Popen(
                [*command(self._version), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def said(self) -> str:
        """What all its lives have said and logged."""
        return "\n".join(
            f"{log.name}:\n{log.read_text(errors='replace')[-4000:]}"
            for log in sorted(self._home.glob("life-*.log"))
        )


@functools.cache
def command(version: str) -> tuple[str, ...]:
    library = jars.client(version, "kafka-streams")
    classes = jars.compiled(PROGRAM, library)
    return tuple(jars.java_command("WordCount", jvm=QUIET, classes=classes, of=library))
