"""A broker in a process of its own, for tests that want one to kill, or to measure.

It has no faults but those that the operating system has for any process: it can be killed, and
frozen. Its helpers are a client's.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from select import select
from typing import Final

from pyk.errors import KafkaError
from pyk.testing.fault import PATIENCE, BrokerFailed, Fault
from pyk.testing.options import Topics, settings_for
from pyk.testing.record import Record, Value
from pyk.testing.restartable import RestartableBroker, begun
from pyk.testing.wire import Wire

READY: Final = "ready\n"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


def serve_in_subprocess(
    config: Mapping[str, str] = {},
    *,
    topics: Topics = (),
    data_dir: Path | str | None = None,
    port: int = 0,
    start_timeout: float = START_SECONDS,
) -> SubprocessBroker:
    """As `serve_in_thread`. It dies with this process, however that ends. Raise BrokerFailed also
    if it does not serve in time."""
    broker = SubprocessBroker(config, data_dir=data_dir, port=port)
    broker.start_timeout = start_timeout
    return begun(broker, topics)


class SubprocessBroker(RestartableBroker):
    place = "a process"

    def __init__(
        self, config: Mapping[str, str], *, data_dir: Path | str | None, port: int
    ) -> None:
        super().__init__(config, data_dir=data_dir, port=port)
        self.start_timeout = START_SECONDS
        self._process: subprocess.Popen[str] | None = None
        self._frozen_by: Fault | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Its life

    def _start(self) -> None:
        options = {"config": self._config, "port": self.port, "data_dir": str(self.data_dir)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyk.testing.child", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            # While it starts: what is wrong with the configuration is raised here, and not there.
            settings_for(self._config, self.port, self.data_dir)
        except KafkaError:
            self._end(signal.SIGKILL)
            raise
        assert self._process.stdout is not None
        speaks, _, _ = select([self._process.stdout], [], [], self.start_timeout)
        said = self._process.stdout.readline() if speaks else f"nothing in {self.start_timeout} s"
        if said != READY:
            self._end(signal.SIGKILL)
            raise BrokerFailed(f"the broker did not start: {said.strip()}")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> Fault:
        """SIGSTOP, until it is lifted."""
        process = self._running
        process.send_signal(signal.SIGSTOP)
        fault = self._frozen_by = Fault("freeze", lambda: process.send_signal(signal.SIGCONT))
        return fault

    def _close(self) -> None:
        code = None if self._process is None else self._process.poll()
        self._end(signal.SIGTERM)
        self._home.leave()
        if code is not None:
            raise BrokerFailed(f"the broker has ended by itself, with {code}")

    # What is in it

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> str:
        with self._wire() as wire:
            wire.create_topic(name, partitions, configs)
        return name

    def produce(
        self, topic: str, *values: Value | Record, partition: int | None = None
    ) -> list[Record]:
        """Write values or whole records, to partition 0 unless told otherwise. A topic that is not
        there is made. What was written, with its offsets. Raise KafkaError."""
        with self._wire() as wire:
            return wire.produce(topic, values, partition)

    def records(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        start: int = 0,
        timeout: float = PATIENCE,
        committed: bool = True,
    ) -> list[Record]:
        """What is in a topic, by partition and offset: what is committed, or all, with what is
        open or aborted. With a count, wait until there is as much. Raise KafkaError, and
        TimeoutError."""
        deadline = time.monotonic() + timeout
        with self._wire() as wire:
            return wire.records(topic, count, partition, start, deadline, committed=committed)

    def _wire(self) -> Wire:
        return Wire((self.host, self.port), PATIENCE)

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerFailed("the broker does not run")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._frozen_by is not None:
            self._frozen_by.lift()
            self._frozen_by = None
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
