"""All shares of the partitions that this broker leads: found, timed, released with their members.

A share is there from the first fetch for it until its group has no session left, or its partition
goes. Its state is with the share coordinator, from where it comes again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import trio

from pyk.config.group import GroupConfig
from pyk.coordinator.share_coordinator import Persister
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.timers import Timers
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage, Topic
from pyk.replication.partition import Isolation, Partition
from pyk.replication.replicas import Replicas
from pyk.sharing.dead_letters import append, letters
from pyk.sharing.delivery import Change, Limits
from pyk.sharing.handout import Terms
from pyk.sharing.sessions import ShareSession, ShareSessions
from pyk.sharing.share import Share
from pyk.sharing.start import StartingPoint
from pyk.sharing.tally import Tally
from pyk.wire.compression import CorruptBatch
from pyk.wire.records import Record

logger = logging.getLogger(__name__)

RETRY_AFTER: Final = 0.1
"""Seconds until locks that are over are looked at again, if they could not be taken back."""
LETTERS_AT_ONCE: Final = 100
"""How many dead letters are written before others have their turn."""


class Shares:
    def __init__(
        self,
        *,
        replicas: Replicas,
        persister: Persister,
        group_config: Callable[[str], GroupConfig],
        sessions_max: Callable[[], int],
        now_ms: Callable[[], int],
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
        topic_for_letters: Callable[[str], Awaitable[Topic]],
    ) -> None:
        """`topic_for_letters` finds a topic by its name, or makes it. It raises KafkaError."""
        self.persister = persister
        self.sessions = ShareSessions(sessions_max)
        self.tallies: dict[SharePartitionKey, Tally] = {}
        """Of all shares that were ever here, so that counts do not go with those who fetch."""
        self._replicas = replicas
        self._group_config = group_config
        self._now_ms = now_ms
        self._start_soon = start_soon
        self._topic_for_letters = topic_for_letters
        self._shares: dict[SharePartitionKey, Share] = {}
        self._timers: Timers[SharePartitionKey] = Timers()
        self._terms: dict[str, tuple[GroupConfig, Terms]] = {}
        self._earlier = trio.Event()
        self._sleeps_until = -math.inf

    def __iter__(self) -> Iterator[Share]:
        return iter(list(self._shares.values()))

    def of(self, group_id: str, topic: Topic, number: int) -> Share:
        """The share, which may have to be read yet. Raise KafkaError."""
        key = SharePartitionKey(group_id, topic.topic_id, number)
        partition = self._replicas.leader_of(topic, number)
        share = self._shares.get(key)
        if share is None or share.partition is not partition:
            share = self._shares[key] = Share(key, partition, self)
            share.begin()
        return share

    def known(self, group_id: str, topic: Topic, number: int) -> Share:
        """One that somebody has fetched from. Raise KafkaError."""
        share = self._shares.get(SharePartitionKey(group_id, topic.topic_id, number))
        if share is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return share

    # Sessions

    def end_session(self, session: ShareSession) -> list[Awaitable[None]]:
        """What its member has is for others, when what is returned is over."""
        if not self.sessions.end(session):
            return []
        group_id, member_id = session.key
        waits = []
        for topic_id, number in session.partitions:
            share = self._shares.get(SharePartitionKey(group_id, topic_id, number))
            if share is None:
                continue
            try:
                kept = share.release(member_id)
            except KafkaError as refusal:
                logger.warning("what %s has of %s stays: %s", member_id, share.key.text, refusal)
            else:
                waits += [] if kept is None else [kept]
        if not self.sessions.has_group(group_id):
            self._forget_idle(group_id)
        return waits

    def on_disconnect(self, connection: object) -> None:
        for session in self.sessions.forget(connection):
            for wait in self.end_session(session):
                self._start_soon(_quietly(wait))

    def _forget_idle(self, group_id: str) -> None:
        for share in self:
            if share.key.group_id == group_id and share.is_idle:
                self.forget(share)

    # The cluster

    def on_image(self, image: ClusterImage) -> None:
        """Shares go with their partitions."""
        for share in self:
            if image.topic_by_id(share.key.topic_id) is None:
                self.forget(share)
                share.close(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        for key in [key for key in self.tallies if image.topic_by_id(key.topic_id) is None]:
            del self.tallies[key]

    # Time

    async def run(self) -> None:
        """Take back what is held for too long."""
        while True:
            deadline = self._timers.deadline()
            self._sleeps_until = math.inf if deadline is None else deadline
            self._earlier = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._earlier.wait()
            while (key := self._timers.take_due(trio.current_time())) is not None:
                share = self._shares.get(key)
                if share is not None and not share.expire():
                    self._timers.set(key, trio.current_time() + RETRY_AFTER)
                await trio.lowlevel.checkpoint()

    # What shares need

    def terms_of(self, group_id: str) -> Terms:
        config = self._group_config(group_id)
        known = self._terms.get(group_id)
        if known is None or known[0] is not config:
            known = self._terms[group_id] = config, _terms(config)
        return known[1]

    def tally_of(self, key: SharePartitionKey) -> Tally:
        return self.tallies.setdefault(key, Tally())

    def find(self, key: SharePartitionKey) -> Share | None:
        return self._shares.get(key)

    def now_ms(self) -> int:
        return self._now_ms()

    def start_soon(self, run: Callable[[], Awaitable[None]]) -> None:
        self._start_soon(run)

    def note_deadline(self, share: Share) -> None:
        deadline = share.deadline()
        if deadline is None:
            self._timers.cancel(share.key)
            return
        self._timers.set(share.key, deadline)
        if deadline < self._sleeps_until:
            self._earlier.set()

    def forget(self, share: Share) -> None:
        if self._shares.get(share.key) is share:
            del self._shares[share.key]
            self._timers.cancel(share.key)
        if not any(key.group_id == share.key.group_id for key in self._shares):
            self._terms.pop(share.key.group_id, None)

    async def bury(self, share: Share, change: Change, topic: str) -> None:
        if topic == share.partition.partition.topic:
            return  # They would come back as records, for ever.
        count = sum(dead.end - dead.base for dead in change.dead)
        try:
            found = await self._topic_for_letters(topic)
            to = self._replicas.leader_of(found, share.key.partition % len(found.partitions))
            written = await self._write_letters(share, change, to)
        except (KafkaError, CorruptBatch) as refusal:
            share.tally.dead_letters_lost += count
            logger.error("%s dead letters of %s are lost: %s", count, share.key.text, refusal)
        else:
            share.tally.dead_letters += written

    async def _write_letters(self, share: Share, change: Change, to: Partition) -> int:
        now_ms, written = self._now_ms(), 0
        batch: list[Record] = []
        for letter in letters(share.partition, share.key.group_id, change.dead, now_ms):
            batch.append(letter)
            if len(batch) == LETTERS_AT_ONCE:
                append(batch, to, now_ms)
                written += len(batch)
                batch = []
                await trio.lowlevel.checkpoint()
        append(batch, to, now_ms)
        return written + len(batch)


def _terms(config: GroupConfig) -> Terms:
    limits = Limits(
        deliveries=config.share_delivery_count_limit,
        in_flight=config.share_partition_max_record_locks,
        lock_duration=config.share_record_lock_duration_ms / 1000,
    )
    is_committed_only = config.share_isolation_level == "read_committed"
    return Terms(
        limits,
        Isolation(is_committed_only),
        StartingPoint.parse(config.share_auto_offset_reset),
        config.errors_deadletterqueue_topic_name or None,
        config.share_record_lock_duration_ms,
    )


def _quietly(wait: Awaitable[None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        try:
            await wait
        except KafkaError as refusal:
            logger.warning("what a member had that is gone stays its own: %s", refusal)

    return run
