"""Lives of a broker on a disk that fails once, with clients, on a virtual clock.

    load -> stop -> load -> kill -9 -> load -> stop -> all that was acknowledged is there

A broker may end for one reason, a failed sync, and may not start while the fault is there. Then the
next one begins where it was, and what was acknowledged holds for it as well.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import trio
from trio._core import _run as scheduler
from trio.testing import MockClock

from pyk.broker import Broker, World, open_broker
from pyk.config.settings import BrokerSettings
from pyk.disk import SyncFailed
from pyk.offload import at_once
from tests.faults.failing_disk import FailingDisk, Fault, Operation
from tests.faults.load import Load, Step
from tests.faults.truth import Place, Violation
from tests.simulated_disk import ROOT

BEGAN_MS: Final = 1_700_000_000_000
ROUNDS: Final = 4
PROCESSOR_SECONDS_MAX: Final = 20.0
STARTS_MAX: Final = 3
"""How often a broker may fail to start."""
SOURCES: Final = "/src/pyk/"
STATIC: Final = {
    "node.id": "1",
    "log.dirs": str(ROOT / "logs"),
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1700",
    "log.cleaner.backoff.ms": "1300",
    "replica.high.watermark.checkpoint.interval.ms": "1100",
    "log.segment.delete.delay.ms": "500",
    "log.index.interval.bytes": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.prune.interval.ms": "2000",
}


@dataclass(frozen=True)
class Site:
    """Where in pyk an operation is called from, and what it is done to."""

    kind: str
    name: str
    """The file, without its offset, below the partition."""
    stack: tuple[str, ...]

    @property
    def code(self) -> str:
        return f"{crc32(repr(self).encode()):08x}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} by {' < '.join(self.stack)}"


@dataclass(frozen=True)
class Wanted:
    """One fault: what goes wrong, and which time of those that the site is reached."""

    code: str
    count: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.code}.{self.count}.{self.fault.name}"

    @classmethod
    def parse(cls, text: str) -> Wanted:
        code, count, fault = text.split(".")
        return cls(code, int(count), Fault[fault])


class Injector:
    """Counts operations by their site, and lets the wanted one fail."""

    def __init__(self, wanted: Wanted | None) -> None:
        self.counts: Counter[Site] = Counter()
        self.hit: Operation | None = None
        self.hit_site: Site | None = None
        self._wanted = wanted

    def __call__(self, operation: Operation) -> Fault | None:
        if self.hit is not None:
            return None
        site = _site_of(operation)
        self.counts[site] += 1
        wanted = self._wanted
        if wanted is None or wanted.code != site.code or self.counts[site] != wanted.count:
            return None
        self.hit, self.hit_site = operation, site
        return wanted.fault

    def place(self) -> Place | None:
        """The partition that was hit."""
        return None if self.hit is None else place_of(self.hit.path)


def place_of(path: Path) -> Place | None:
    """The partition that a file is of."""
    for part in path.parts:
        found = re.fullmatch(r"(.+)-(\d+)(?:\.[\w-]+-(?:delete|stray))?", part)
        if found:
            return found[1], int(found[2])
    return None


def _site_of(operation: Operation) -> Site:
    stack: list[str] = []
    frame = sys._getframe(2)
    while frame.f_back is not None and len(stack) < 7:
        code = frame.f_code
        _, found, path = code.co_filename.partition(SOURCES)
        if found and not path.startswith(("server/", "offload")):
            stack.append(f"{path.removesuffix('.py')}:{code.co_qualname.rpartition('.')[2]}")
        elif "/tests/faults/" not in code.co_filename and stack and not found:
            break
        frame = frame.f_back
    name = re.sub(r"\d{20}", "N", operation.path.name)
    name = re.sub(r"(.+-\d+)\.[\w-]+-(delete|stray)", r"\1.ID-\2", name)
    place = re.sub(r"(.+-\d+)\.[\w-]+-(delete|stray)", r"\1.ID-\2", operation.path.parent.name)
    return Site(operation.kind, f"{place}/{name}", tuple(stack))


@dataclass
class Lines(logging.Handler):
    """What the broker has logged."""

    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(record.getMessage())
        if record.exc_info and record.exc_info[1] is not None:
            self.text.append("".join(traceback.format_exception(record.exc_info[1])))

    @contextmanager
    def collected(self) -> Iterator[None]:
        """While the block runs, and nobody else has them."""
        logger = logging.getLogger("pyk")
        logger.addHandler(self)
        was_propagating, logger.propagate = logger.propagate, False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = was_propagating

    __hash__ = object.__hash__


class _Killed(Exception):
    pass


@dataclass
class Outcome:
    wanted: Wanted | None
    site: Site | None = None
    counts: Counter[Site] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Why brokers ended, or did not start, before they were to."""
    is_silent: bool = False
    """Whether no line names what was hit."""
    lines: list[str] = field(default_factory=list)


class Campaign:
    """One run: a load, a disk and at most one fault."""

    def __init__(self, seed: int, wanted: Wanted | None) -> None:
        self.injector = Injector(wanted)
        self.outcome = Outcome(wanted)
        self.load = Load(seed, self.injector.place)
        self.load.now_ms = self._now_ms
        self.disk = FailingDisk()
        self.disk.plan = self.injector

    def _now_ms(self) -> int:
        return BEGAN_MS + int(trio.current_time() * 1000)

    async def run(self) -> None:
        await self._live([self.load.begin, *self._rounds(0, ROUNDS)], kills=False)
        await self._live([*self._rounds(ROUNDS, ROUNDS + 1), self.load.check], kills=True)
        await self._live([self.load.check, *self._rounds(ROUNDS + 1, ROUNDS + 3)], kills=False)
        self.disk.plan = None
        await self._live([self.load.check], kills=False)

    async def some_rounds(self, count: int, *, kills: bool) -> None:
        await self._live([self.load.begin, *self._rounds(0, count)], kills=kills)

    def _rounds(self, first: int, last: int) -> list[Step]:
        return [step for number in range(first, last) for step in self.load.round(number)]

    async def _live(self, steps: list[Step], *, kills: bool) -> None:
        """Until the steps are done, by one broker after the other if one ends too early."""
        starts = 0
        while steps:
            before, self._is_serving = len(steps), False
            failure = await self._live_once(steps, kills=kills)
            if failure is None:
                return
            self._judge(failure)
            starts += 1
            if starts > STARTS_MAX:
                raise Violation(f"no broker starts any more: {self.outcome.ended}")
            self.disk = self._revived()
            if not steps and before:
                return

    def _revived(self) -> FailingDisk:
        disk = self.disk.kill9()
        assert isinstance(disk, FailingDisk)
        disk.plan = self.disk.plan
        return disk

    async def _live_once(self, steps: list[Step], *, kills: bool) -> BaseException | None:
        world = World(disk=self.disk, now_ms=self._now_ms, offload=at_once, grace=0.1)
        violation: list[Violation] = []
        try:
            async with open_broker(BrokerSettings(STATIC), world) as broker:
                self._is_serving = True
                await self._serve(broker, steps, violation)
                if kills:
                    raise _Killed
                self._is_serving = False
        except BaseException as failure:
            if violation:
                raise violation[0] from None
            leaves = list(_leaves(failure))
            if all(isinstance(each, _Killed) for each in leaves):
                self.disk = self._revived()
                return None
            if any(isinstance(each, KeyboardInterrupt | _Stuck) for each in leaves):
                raise
            return failure
        return None

    async def _serve(
        self,
        broker: Broker,
        steps: list[Step],
        violation: list[Violation],
    ) -> None:
        self.load.meet(broker)
        while steps:
            try:
                await steps[0]()
            except Violation as found:
                violation.append(found)
                raise
            steps.pop(0)

    def _judge(self, failure: BaseException) -> None:
        """Raise Violation unless it is allowed to end so."""
        leaves = [each for each in _leaves(failure) if not isinstance(each, _Killed)]
        text = "; ".join(f"{type(each).__name__}: {each}" for each in leaves)
        self.outcome.ended.append(text)
        hit = self.injector.hit
        trace = "".join(traceback.format_exception(failure))
        if hit is None:
            raise Violation(f"the broker ended without a fault: {text}\n{trace}")
        if all(isinstance(each, SyncFailed | trio.Cancelled) for each in leaves):
            return
        is_named = names_file(hit.path, [text])
        if not self._is_serving and not is_named:
            raise Violation(f"the broker starts or stops not, and not why: {text}\n{trace}")
        if self._is_serving:
            raise Violation(f"the broker ended: {text}\n{trace}")


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure


def run_in_virtual_time(
    seed: int, main: Callable[..., Coroutine[Any, Any, None]], *args: object
) -> None:
    """The same each time: as where Hypothesis runs it, trio wakes its tasks in an order that
    follows from the seed."""
    scheduler._hypothesis_plugin_setup()
    scheduler._r.seed(seed)
    before = signal.signal(signal.SIGVTALRM, _give_up)
    # More than once: it may be swallowed where it comes.
    signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_SECONDS_MAX, 1.0)
    try:
        trio.run(main, *args, clock=MockClock(autojump_threshold=0))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Stuck(BaseException):
    """Virtual time does not pass any more: something is tried again without a pause."""


def _give_up(*_: object) -> None:
    raise _Stuck


def run(seed: int, wanted: Wanted | None) -> Outcome:
    """One run."""
    campaign = Campaign(seed, wanted)
    outcome, injector = campaign.outcome, campaign.injector
    lines = Lines()
    with lines.collected():
        try:
            run_in_virtual_time(seed, campaign.run)
        except Violation as violation:
            outcome.violations.append(str(violation))
        except BaseException as failure:
            if any(isinstance(each, KeyboardInterrupt) for each in _leaves(failure)):
                raise
            outcome.violations.append("".join(traceback.format_exception(failure)))
    outcome.counts, outcome.site, outcome.lines = injector.counts, injector.hit_site, lines.text
    bugs = [line for line in lines.text if "over a bug" in line or "after a bug" in line]
    outcome.violations += [f"a bug: {line}" for line in bugs]
    if injector.hit is not None:
        outcome.is_silent = not names_file(injector.hit.path, [*lines.text, *outcome.ended])
    return outcome


def names_file(path: Path, lines: list[str]) -> bool:
    """Whether a line names the file, or the partition that it is of."""
    place = place_of(path)
    name = path.name if place is None else f"{place[0]}-{place[1]}"
    return any(name in line for line in lines)
