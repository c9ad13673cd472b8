"""The coordinator of share partitions: shards of `__share_group_state`, and who asks them.

    group coordinator, leaders of partitions -> Persister -> shard -> `ShareStates`

Now and then each log is cut where nothing before is needed: it is not compacted, and would grow.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, Final

import trio

from pyk.coordinator.internal_topics import SHARE_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.machine import Decision, Ticket
from pyk.coordinator.shards import Parts, Shards
from pyk.coordinator.share_state.batches import StateBatch as StateBatch
from pyk.coordinator.share_state.key import SharePartitionKey as SharePartitionKey
from pyk.coordinator.share_state.share_states import ShareStates, Surroundings
from pyk.coordinator.share_state.state import Progress
from pyk.coordinator.share_state.state import ShareState as ShareState
from pyk.coordinator.share_state.state import Summary as Summary
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.wire.compression import Compression
from pyk.wire.payloads import share_state_records

logger = logging.getLogger(__name__)

ShareShards = Shards[ShareStates]
Decide = Callable[[ShareStates, Ticket, float], Decision]

RECORD_TYPES: Final = record_types(share_state_records)


class ShareCoordinator:
    def __init__(
        self, parts: Parts, note_missing: Callable[[SharePartitionKey], None] = lambda _: None
    ) -> None:
        """`note_missing` is told when the leader of a partition asks for a state that is not
        there."""
        self._parts = parts
        self.shards: ShareShards = Shards(
            parts, SHARE_TOPIC, RECORD_TYPES, self._options, self._machine
        )
        self.persister = Persister(self.shards, note_missing)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.shards.run)
            nursery.start_soon(self._prune)

    def on_image(self, image: ClusterImage) -> None:
        self.shards.on_image(image)

    def prune(self) -> None:
        """Let each log start where it is needed from."""
        for shard in self.shards:
            if shard.is_loaded:
                try:
                    shard.journal.prune(shard.machine.needed_from)
                except Exception:
                    logger.exception("a log of %s does not begin later", SHARE_TOPIC)

    async def _prune(self) -> None:
        while True:
            config = self._parts.settings().config
            await trio.sleep(config.share_coordinator_state_topic_prune_interval_ms / 1000)
            self.prune()

    def _options(self) -> JournalOptions:
        config = self._parts.settings().config
        return JournalOptions(
            compression=Compression(config.share_coordinator_state_topic_compression_codec),
            timeout=config.share_coordinator_write_timeout_ms / 1000,
        )

    def _machine(self) -> ShareStates:
        return ShareStates(
            Surroundings(
                config=lambda: self._parts.settings().config,
                now_ms=self._parts.now_ms,
                image=lambda: self._parts.mirror.image,
            )
        )


class Persister:
    """What everybody else knows of the coordinator: the state of share partitions, kept.

    Each call gives its outcome, or an awaitable of it where it has to wait: until the topic is
    made, the shard is loaded, the log is committed. Refusals are raised, or by the awaitable.
    """

    def __init__(
        self,
        shards: ShareShards,
        note_missing: Callable[[SharePartitionKey], None] = lambda _: None,
    ) -> None:
        self._shards = shards
        self._note_missing = note_missing

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int
    ) -> Awaitable[None] | None:
        """Let the partition begin, or begin anew, at that offset. Raise KafkaError."""
        return self._ask(
            key,
            lambda machine, ticket, now: machine.initialize(
                key, state_epoch, start_offset, ticket, now
            ),
        )

    def read(
        self, key: SharePartitionKey, *, leader_epoch: int
    ) -> ShareState | Awaitable[ShareState]:
        """For the partition's leader, who fences those before it. Raise KafkaError."""
        try:
            found = self._ask(
                key, lambda machine, ticket, now: machine.read(key, leader_epoch, ticket, now)
            )
        except KafkaError as refusal:
            self._note_refusal(key, refusal)
            raise
        return self._read_later(key, found) if isawaitable(found) else found

    async def _read_later(
        self, key: SharePartitionKey, outcome: Awaitable[ShareState]
    ) -> ShareState:
        try:
            return await outcome
        except KafkaError as refusal:
            self._note_refusal(key, refusal)
            raise

    def _note_refusal(self, key: SharePartitionKey, refusal: KafkaError) -> None:
        if refusal.code is ErrorCode.INVALID_REQUEST:
            self._note_missing(key)

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Awaitable[None] | None:
        """Keep what the partition's leader says. Raise KafkaError."""
        progress = Progress(
            state_epoch, leader_epoch, start_offset, delivery_complete_count, tuple(batches)
        )
        return self._ask(
            key, lambda machine, ticket, now: machine.write(key, progress, ticket, now)
        )

    def summary(
        self, key: SharePartitionKey, *, leader_epoch: int = -1
    ) -> Summary | Awaitable[Summary]:
        """The start offset is -1 if the partition was never initialised. Nobody is fenced, whatever
        epoch is given. Raise KafkaError."""
        return self._ask(key, lambda machine, ticket, now: machine.summary(key, ticket, now))

    def delete(self, key: SharePartitionKey) -> Awaitable[None] | None:
        """Forget it, if it is there. Raise KafkaError."""
        return self._ask(key, lambda machine, ticket, now: machine.delete(key, ticket, now))

    def _ask(self, key: SharePartitionKey, decide: Decide) -> Any | Awaitable[Any]:
        if not self._shards.has_topic:
            return self._ask_later(key, decide)
        try:
            return self._shards.execute(key.text, decide)
        except KafkaError as refusal:
            if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
        return self._ask_later(key, decide)

    async def _ask_later(self, key: SharePartitionKey, decide: Decide) -> Any:
        if not self._shards.has_topic:
            await self._shards.create_topic()
        await self._shards.of(key.text).wait_loaded()
        outcome = self._shards.execute(key.text, decide)
        return await outcome if isawaitable(outcome) else outcome
