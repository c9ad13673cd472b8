"""What brokers of tests have in common that run beside the test: an address, a home, and lives.

    down -> start -> serves -> stop, kill -> down -> ... -> close

The port and the data stay over all of them.
"""

from __future__ import annotations

import atexit
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from pyk.testing.fault import BrokerFailed
from pyk.testing.options import HOST, Home, Topics, new_name, partitions_of

if TYPE_CHECKING:
    from types import TracebackType

B = TypeVar("B", bound="RestartableBroker")


class RestartableBroker(ABC):
    place: ClassVar[str]
    """Where it runs, for people."""
    host = HOST

    def __init__(
        self, config: Mapping[str, str], *, data_dir: Path | str | None, port: int
    ) -> None:
        self._home = Home(data_dir, port)
        self._config = dict(config)
        self._process_id = os.getpid()
        self._is_closed = False
        atexit.register(self.close)

    @property
    def port(self) -> int:
        """The same after a restart."""
        return self._home.port

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self._home.data_dir

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    def __repr__(self) -> str:
        state = "serves" if self.is_running else "is closed" if self._is_closed else "is down"
        return f"<pyk broker in {self.place}, {state} on {self.bootstrap_servers}, {self.data_dir}>"

    def start(self) -> None:
        """Serve again after `stop` or `kill`, on the same port with the same data."""
        if self.is_running:
            return
        if self._is_closed:
            raise BrokerFailed("the broker was closed")
        self._start()

    @abstractmethod
    def stop(self) -> None:
        """Shut down as an operator does. Clients cannot connect until `start`."""

    @abstractmethod
    def kill(self) -> None:
        """Die as by SIGKILL: nothing is closed or written any more, and the next start recovers."""

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """The end. Raise BrokerFailed if the broker died by itself, unless a test has provoked it,
        or had a bug."""
        if self._is_closed or self._process_id != os.getpid():
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except BrokerFailed as failed:
            if error is None:
                raise
            cause = f": {failed.__cause__!r}" if failed.__cause__ else ""
            error.add_note(f"And {failed}{cause}")

    @abstractmethod
    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> str:
        """Raise KafkaError."""

    def topic(
        self, prefix: str = "topic", partitions: int = 1, configs: Mapping[str, str] = {}
    ) -> str:
        """A new topic under a name that nobody else has."""
        return self.create_topic(new_name(prefix), partitions, configs)

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


def begun(broker: B, topics: Topics) -> B:
    """It serves, with topics made. If that fails nothing is left of it."""
    try:
        broker.start()
        for name, partitions in partitions_of(topics).items():
            broker.create_topic(name, partitions)
    except BaseException:
        broker.close()
        raise
    return broker
