"""A broker in a thread of this process, for code of any kind: plain, asyncio, a notebook.

It listens when `serve_in_thread` returns, and is gone at the end of its block, when it is closed,
or when Python ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyk.broker import Broker, World
from pyk.handlers.context import Context
from pyk.offload import at_once
from pyk.testing.clock import BrokerClock
from pyk.testing.disk import ScratchDisk
from pyk.testing.fault import PATIENCE, BrokerFailed, Provoked
from pyk.testing.faults import Faults
from pyk.testing.options import Topics, settings_for
from pyk.testing.requests import Requests
from pyk.testing.restartable import RestartableBroker, begun
from pyk.testing.run import Run, is_provoked

if TYPE_CHECKING:
    from pyk.testing.record import Record, Value

T = TypeVar("T")


def serve_in_thread(
    config: Mapping[str, str] = {},
    *,
    topics: Topics = (),
    data_dir: Path | str | None = None,
    port: int = 0,
) -> ThreadBroker:
    """A broker that serves already, with Kafka's broker keys, and with topics made.

    A data directory that is given is kept. Raise KafkaError for a configuration that is wrong, and
    OSError for a port that is taken.
    """
    return begun(ThreadBroker(config, data_dir=data_dir, port=port), topics)


class ThreadBroker(RestartableBroker):
    place = "a thread"

    def __init__(
        self, config: Mapping[str, str], *, data_dir: Path | str | None, port: int
    ) -> None:
        super().__init__(config, data_dir=data_dir, port=port)
        self._disk = ScratchDisk()
        self._run: Run | None = None
        self._broker: Broker | None = None
        self._failure: BaseException | None = None
        self.clock = BrokerClock()
        self.requests = Requests()
        """What clients have asked, since the start or the last `reset`."""
        self.faults = Faults(self._disk, self.requests)

    @property
    def is_running(self) -> bool:
        return self._run is not None and self._run.is_alive

    # Its life

    def _start(self) -> None:
        world = World(
            disk=self._disk,
            now_ms=self.clock.now_ms,
            offload=at_once,
            endpoints=self.faults.endpoints(),
            grace=0.0,
        )
        run = Run(settings_for(self._config, self.port, self.data_dir), world, self.clock)
        try:
            self._broker = run.start()
        except BaseException:
            self._disk.close_all()
            raise
        self._run = run
        self.faults.attach(self._broker.server, run.soon, may_freeze=True)
        self._broker.context.failures.tell_of_bug = self.faults.note_bug
        self.clock.carry_out = run.carry_out

    def stop(self) -> None:
        self._end(is_killed=False)

    def kill(self) -> None:
        self._end(is_killed=True)

    def _close(self) -> None:
        self.faults.lift_all()
        self.clock.release()
        self._end(is_killed=False)
        self._home.leave()
        self.check()

    def check(self) -> None:
        """Raise BrokerFailed as `close` does, once for each failure."""
        if self._run is not None and not self._run.is_alive:
            self._end(is_killed=False)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise BrokerFailed("the broker died") from failure
        bugs, self.faults.bugs = self.faults.bugs, []
        if bugs:
            group = ExceptionGroup("bugs in handlers", bugs)
            raise BrokerFailed(f"the broker has failed to handle requests: {bugs[0]!r}") from group

    def reset(self) -> None:
        """For the next test: no faults, no requests seen, a clock that runs, a broker that serves.
        Topics stay. Raise as `check` does."""
        self.faults.lift_all()
        self.clock.release()
        self.check()
        self.start()
        self.requests.clear()

    # What is in it. How to get at that is imported by whoever wants it: clients do without.

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> str:
        from pyk.testing import inside

        self._call(partial(inside.create_topic, self._context, name, partitions, configs))
        return name

    def produce(
        self, topic: str, *values: Value | Record, partition: int | None = None
    ) -> list[Record]:
        """Write values or whole records, to partition 0 unless told otherwise. A topic that is not
        there is made. What was written, with its offsets. Raise KafkaError."""
        from pyk.testing import inside

        return self._call(partial(inside.produce, self._context, topic, values, partition))

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
        from pyk.testing import inside

        context, isolation = self._context, inside.isolation_of(committed=committed)
        read = partial(inside.records, context, topic, count, partition, start, isolation)
        try:
            return self._call(read, timeout)
        except TimeoutError:
            found = self.records(topic, partition=partition, start=start, committed=committed)
            raise TimeoutError(
                f"{topic} has {len(found)} records after {timeout} s, not {count}"
            ) from None

    @property
    def _context(self) -> Context:
        if not self.is_running or self._broker is None:
            raise BrokerFailed("the broker does not run") from self._failure
        return self._broker.context

    def _call(self, run: Callable[[], Awaitable[T]], timeout: float = PATIENCE) -> T:
        assert self._run is not None
        return self._run.call(run, timeout)

    def _end(self, *, is_killed: bool) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self.faults.thaw()
        run.end(is_killed=is_killed)
        self.faults.detach()
        self.clock.carry_out = lambda change: change()
        self._broker = None
        self._disk.close_all()
        if run.failure is not None and not is_provoked(run.failure, Provoked):
            self._failure = run.failure
