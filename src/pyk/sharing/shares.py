"""All shares of the partitions that this broker leads: found, timed, released with their members.

A share is there from the first fetch for it until its group has no session left, or its partition
goes. Its state is with the share coordinator, from where it comes again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Final

import trio

from pyk.config.group import GroupConfig
from pyk.coordinator.share_coordinator import Persister
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.timers import Timers
from pyk.errors import ErrorCode, KafkaError
from pyk.late_wakeups import let_sockets_be_read
from pyk.metadata.image import ClusterImage, Topic
from pyk.replication.partition import Isolation, Partition
from pyk.replication.replicas import Replicas
from pyk.sharing.dead_letters import Burial
from pyk.sharing.delivery import Dead, Limits
from pyk.sharing.handout import Terms
from pyk.sharing.sessions import ShareSession, ShareSessions
from pyk.sharing.share import Share
from pyk.sharing.start import StartingPoint
from pyk.sharing.tally import Tally
from pyk.turns import Work, in_turns

logger = logging.getLogger(__name__)

RETRY_AFTER: Final = 0.1
"""Seconds until locks that are over are looked at again, if they could not be taken back."""
PARTITIONS_AT_ONCE: Final = 16
"""How many partitions a member that is gone gives back before others have their turn."""


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
        self._by_group: dict[str, dict[SharePartitionKey, Share]] = {}
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
        if share is not None:
            if share.partition is partition and share.leader_epoch == partition.leader_epoch:
                return share
            self.forget(share)
            share.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        share = self._shares[key] = Share(key, partition, self)
        self._by_group.setdefault(group_id, {})[key] = share
        share.begin()
        return share

    def known(self, group_id: str, topic: Topic, number: int) -> Share:
        """One that somebody has fetched from. Raise KafkaError."""
        share = self._shares.get(SharePartitionKey(group_id, topic.topic_id, number))
        if share is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return share

    # Sessions

    def end_session(self, session: ShareSession) -> Awaitable[None] | None:
        """What its member has is for others: of the first partitions at once, and of the others
        when what is returned is over, if anything is."""
        if not self.sessions.end(session):
            return None
        waits: list[Awaitable[None]] = []
        turns = self._give_back(session, waits)
        is_more = next(turns, False)
        return self._give_back_the_rest(turns, waits) if is_more or waits else None

    def on_disconnect(self, connection: object) -> None:
        for session in self.sessions.forget(connection):
            try:
                rest = self.end_session(session)
            except Exception:
                logger.exception("what %s had is its own until the locks are over", session.key)
                continue
            if rest is not None:
                self._start_soon(partial(_waited, rest))

    def _give_back(self, session: ShareSession, waits: list[Awaitable[None]]) -> Iterator[bool]:
        """In turns. If the member is back meanwhile, what is left of it is its own until the locks
        are over: it may be what it was handed since."""
        group_id, member_id = session.key
        for count, (topic_id, number) in enumerate(session.partitions, start=1):
            share = self._shares.get(SharePartitionKey(group_id, topic_id, number))
            if share is not None:
                try:
                    kept = share.release(member_id)
                except KafkaError as refusal:
                    _log_kept_back(share.key.text, refusal)
                else:
                    waits += [] if kept is None else [kept]
            if count % PARTITIONS_AT_ONCE == 0:
                yield True
                if self.sessions.has(session.key):
                    break
        if not self.sessions.has_group(group_id):
            self._forget_idle(group_id)

    async def _give_back_the_rest(
        self, turns: Iterator[bool], waits: list[Awaitable[None]]
    ) -> None:
        for _ in turns:
            await trio.lowlevel.checkpoint()
        for wait in waits:
            try:
                await wait
            except KafkaError as refusal:
                _log_kept_back("a member that is gone", refusal)

    def _forget_idle(self, group_id: str) -> None:
        for share in list(self._by_group.get(group_id, {}).values()):
            if share.is_idle:
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
            moment = await let_sockets_be_read(self._sleeps_until)
            await in_turns(self._expire_due(moment))

    def _expire_due(self, moment: float) -> Work[None]:
        while (key := self._timers.take_due(moment)) is not None:
            share = self._shares.get(key)
            if share is not None and not share.expire():
                self._timers.set(key, trio.current_time() + RETRY_AFTER)
            yield

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
        if self._shares.get(share.key) is not share:
            return  # Another has taken its place, and its timer.
        deadline = share.deadline()
        if deadline is None:
            self._timers.cancel(share.key)
            return
        if deadline <= trio.current_time():
            # It could not be taken back when it was over.
            deadline = trio.current_time() + RETRY_AFTER
        self._timers.set(share.key, deadline)
        if deadline < self._sleeps_until:
            self._earlier.set()

    def forget(self, share: Share) -> None:
        if self._shares.get(share.key) is share:
            del self._shares[share.key]
            self._timers.cancel(share.key)
            of_group = self._by_group[share.key.group_id]
            del of_group[share.key]
            if not of_group:
                del self._by_group[share.key.group_id]
                self._terms.pop(share.key.group_id, None)

    def burial_of(self, share: Share, dead: Iterable[Dead], topic: str) -> Burial | None:
        if topic == share.partition.partition.topic:
            return None  # They would come back as records, for ever.

        async def find() -> Partition:
            found = await self._topic_for_letters(topic)
            number = share.key.partition % len(found.partitions)
            await self._replicas.ensure_logs([(found, number)])
            return self._replicas.leader_of(found, number)

        return Burial(share.partition, share.key.group_id, dead, find, self._now_ms())


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


async def _waited(rest: Awaitable[None]) -> None:
    await rest


def _log_kept_back(what: str, refusal: KafkaError) -> None:
    logger.warning("records of %s stay acquired until their locks are over: %s", what, refusal)
