"""The coordinator of groups: shards of `__consumer_offsets`, and jobs that take long, which are
expressions to be tried on the names of topics, and targets of large groups.

    machine has a job -> a thread does some of it -> the machine takes that -> the thread goes on

All groups take turns, so that one which takes long holds nobody up.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Final

import trio

from pyk.coordinator.consumer.regular_expressions import Search
from pyk.coordinator.consumer.target import Assignment
from pyk.coordinator.group import Surroundings
from pyk.coordinator.group_configs import GroupConfigs
from pyk.coordinator.groups import Groups
from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.shard import Shard
from pyk.coordinator.shards import Parts, Shards
from pyk.coordinator.share_lifecycle import ShareLifecycle
from pyk.offload import Elsewhere
from pyk.sparing import Sparing
from pyk.wire.compression import Compression
from pyk.wire.payloads import (
    classic_group_records,
    consumer_group_records,
    offset_records,
    share_group_records,
)

logger = logging.getLogger(__name__)

JOB_SECONDS: Final = 0.05
"""How long something is done for one group before it is the turn of the next."""

RECORD_TYPES: Final = record_types(
    offset_records, classic_group_records, consumer_group_records, share_group_records
)


class GroupShards(Shards[Groups]):
    def __init__(
        self,
        parts: Parts,
        options: Callable[[], JournalOptions],
        machine: Callable[[], Groups],
        shares: ShareLifecycle,
    ) -> None:
        self._jobs = Jobs(parts.offload)

        def note_change(shard: Shard[Groups]) -> None:
            shares.note_change(shard)
            self._jobs.note_change(shard)

        super().__init__(parts, GROUP_TOPIC, RECORD_TYPES, options, machine, note_change)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            nursery.start_soon(self._jobs.run)


class Jobs:
    """Those that are under way."""

    def __init__(self, offload: Elsewhere) -> None:
        self._offload = offload
        self._due: deque[_UnderWay] = deque()
        self._woken = trio.Event()
        self._refusals = Sparing()

    def note_change(self, shard: Shard[Groups]) -> None:
        for job in shard.machine.consumer.take_jobs():
            self._due.append(_UnderWay(shard, job))
            self._woken.set()

    async def run(self) -> None:
        """Begun again after it was cancelled, it goes on with those that were not under way then.
        Of that one nothing is left: whoever needs it makes another."""
        while True:
            while self._due:
                await self._go_on(self._due.popleft())
            self._woken = trio.Event()
            await self._woken.wait()

    async def _go_on(self, under_way: _UnderWay) -> None:
        is_over = True
        try:
            is_over = await self._offload(under_way.go_on)
            await under_way.tell()
        except Exception:
            logger.exception("a job of group %s fails", under_way.job.group_id)
            is_over = True
        finally:
            if is_over or not under_way.shard.is_loaded:
                under_way.end()
                self._tell_refusal(under_way.job)
            else:
                self._due.append(under_way)

    def _tell_refusal(self, job: Search | Assignment) -> None:
        if isinstance(job, Assignment) and job.refusal is not None:
            more = self._refusals.next_line()
            if more is not None:
                what = "group %s: the log refuses its target: %s%s"
                logger.warning(what, job.group_id, job.refusal, more)


class _UnderWay:
    def __init__(self, shard: Shard[Groups], job: Search | Assignment) -> None:
        self.shard = shard
        self.job = job
        self._spent = 0.0
        self._began = 0.0
        self._work: Iterator[None] = job.work(self._worked)

    def _worked(self) -> float:
        return self._spent + thread_time() - self._began

    def go_on(self) -> bool:
        """Whether it is over. Called in any thread."""
        self._began, turn_ends = thread_time(), perf_counter() + JOB_SECONDS
        for _ in self._work:
            if perf_counter() > turn_ends:
                self._spent = self._worked()
                return False
        return True

    async def tell(self) -> None:
        """Let the machine take what was done."""
        job = self.job
        while job.has_found and self.shard.is_loaded:
            self.shard.perform(lambda groups, now: groups.consumer.take_result(job, now))
            await trio.lowlevel.checkpoint()

    def end(self) -> None:
        job = self.job
        self.shard.machine.consumer.end_job(job)
        for regex in job.given_up:
            logger.warning("group %s: %.200r takes too long", job.group_id, regex)


def group_shards(parts: Parts, shares: ShareLifecycle) -> GroupShards:
    configs = GroupConfigs(parts.settings, parts.mirror)

    def options() -> JournalOptions:
        config = parts.settings().config
        return JournalOptions(
            compression=Compression(config.offsets_topic_compression_codec),
            timeout=config.offsets_commit_timeout_ms / 1000,
        )

    def machine() -> Groups:
        surroundings = Surroundings(
            config=lambda: parts.settings().config,
            group_config=configs.of,
            rng=parts.rng,
            now_ms=parts.now_ms,
            image=parts.mirror.image,
        )
        return Groups(surroundings)

    return GroupShards(parts, options, machine, shares)
