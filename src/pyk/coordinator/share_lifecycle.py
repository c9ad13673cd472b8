"""Begins and deletes the states of the partitions that share groups read, through the persister.

    machine wants -> each state is begun -> machine is told -> who waited for it is answered

What takes no waiting is done before the heartbeat that wanted it is answered. What is done to the
states of one group is done one after the other: a member that joins while its group is moved or
forgotten does not begin what another is about to, and finds what came of that.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import isawaitable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import trio

from pyk.coordinator.groups import Groups
from pyk.coordinator.shard import Shard
from pyk.coordinator.shards import Shards
from pyk.coordinator.share.initialization import Initialization
from pyk.coordinator.share.partitions import ByTopic, Known
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.state import NOT_GIVEN
from pyk.errors import ErrorCode, KafkaError
from pyk.turns import Work, answered, settled
from pyk.types import Uuid

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Persister

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET: Final = -1
"""The partition's leader finds out where to begin."""

Errors: TypeAlias = dict[SharePartitionKey, KafkaError]
"""By those that were refused."""


class ShareLifecycle:
    def __init__(
        self,
        persister: Callable[[], Persister],
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._persister = persister
        self._start_soon = start_soon
        self._turns: dict[str, trio.Semaphore] = {}
        """Of those groups to whose states something is being done."""
        self._missing: set[SharePartitionKey] = set()
        """States that are looked for."""

    def note_change(self, shard: Shard[Groups]) -> None:
        """A decision of the shard was carried out."""
        share = shard.machine.share
        if share.is_wanted:
            for wanted in share.take_wanted():
                self._begin(shard, wanted)
        for group_id in share.take_half_deleted():
            self._start_soon(partial(self._finish_deletion, shard, group_id))

    @asynccontextmanager
    async def turn(self, group_id: str) -> AsyncIterator[None]:
        """For whoever does something to the states of a group in several steps. Others wait."""
        turn = self._turns.setdefault(group_id, trio.Semaphore(1, max_value=1))
        await turn.acquire()
        try:
            yield
        finally:
            self._end_turn(group_id)

    def _end_turn(self, group_id: str) -> None:
        turn = self._turns[group_id]
        turn.release()
        if turn.value:
            del self._turns[group_id]

    def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[tuple[Uuid, int], int]
    ) -> Errors | Awaitable[Errors]:
        """Let partitions begin at those offsets."""
        keys = {SharePartitionKey(group_id, *place): offset for place, offset in offsets.items()}
        persister = self._persister()
        return for_each(
            keys,
            lambda key: persister.initialize(key, state_epoch=state_epoch, start_offset=keys[key]),
        )

    def delete(self, group_id: str, partitions: ByTopic) -> Errors | Awaitable[Errors]:
        if not partitions:
            return {}
        keys = [SharePartitionKey(group_id, *place) for place in places(partitions)]
        return for_each(keys, self._persister().delete)

    def _begin(self, shard: Shard[Groups], wanted: Initialization) -> None:
        group_id = wanted.group_id
        if group_id in self._turns:
            self._start_soon(partial(self._begin_later, shard, wanted))
            return
        outcome = self._begun(wanted, wanted.partitions)
        if isawaitable(outcome):
            self._turns[group_id] = trio.Semaphore(0, max_value=1)
            self._start_soon(partial(self._end_later, shard, wanted, outcome))
        else:
            _end(shard, wanted, wanted.partitions, outcome)

    async def _begin_later(self, shard: Shard[Groups], wanted: Initialization) -> None:
        async with self.turn(wanted.group_id):
            partitions = shard.machine.share.not_begun(wanted) if shard.is_loaded else {}
            errors = await settled(self._begun(wanted, partitions))
            _end(shard, wanted, partitions, errors)

    async def _end_later(
        self, shard: Shard[Groups], wanted: Initialization, outcome: Awaitable[Errors]
    ) -> None:
        try:
            _end(shard, wanted, wanted.partitions, await outcome)
        finally:
            self._end_turn(wanted.group_id)

    def _begun(self, wanted: Initialization, partitions: ByTopic) -> Errors | Awaitable[Errors]:
        offsets = dict.fromkeys(places(partitions), UNKNOWN_OFFSET)
        return self.initialize(wanted.group_id, wanted.state_epoch, offsets)

    async def _finish_deletion(self, shard: Shard[Groups], group_id: str) -> None:
        """One that a crash has left half done, or somebody who was refused."""
        try:
            async with self.turn(group_id):
                if shard.is_loaded:
                    await self._delete_the_rest(shard, group_id)
        finally:
            shard.machine.share.end_deletion(group_id)

    async def _delete_the_rest(self, shard: Shard[Groups], group_id: str) -> None:
        doomed = shard.machine.share_offsets.half_deleted(group_id)
        errors = await settled(self.delete(group_id, doomed))
        for error in islice(errors.values(), 1):
            logger.warning("states of %s cannot be deleted: %s", group_id, error)
        gone = doomed.keys() - {key.topic_id for key in errors}
        try:
            shard.perform(lambda groups, now: groups.share_offsets.forgotten(group_id, gone))
        except KafkaError as refusal:
            logger.warning("it is not kept what of %s is deleted: %s", group_id, refusal)

    def note_missing(self, key: SharePartitionKey, groups: Shards[Groups]) -> None:
        """A leader has asked for a state that is not there. Where the group's log says that it has
        begun, as after a power cut that took one log back and not the other, nobody else would let
        it begin."""
        with suppress(KafkaError):
            shard = groups.of(key.group_id)
            if key not in self._missing and _epoch_of(shard, key) is not None:
                self._missing.add(key)
                self._start_soon(partial(self._replace_missing, shard, key))

    async def _replace_missing(self, shard: Shard[Groups], key: SharePartitionKey) -> None:
        try:
            async with self.turn(key.group_id):
                epoch = _epoch_of(shard, key)
                if epoch is not None and await self._is_missing(key):
                    # At the start of the log: what was not delivered may be anywhere in it.
                    kept = self._persister().initialize(key, state_epoch=epoch, start_offset=0)
                    if kept is not None:
                        await kept
                    logger.warning("the state of %s was lost, and it begins anew", key.text)
        except KafkaError as refusal:
            logger.warning("the state of %s is lost: %s", key.text, refusal)
        finally:
            self._missing.discard(key)

    async def _is_missing(self, key: SharePartitionKey) -> bool:
        """Raise KafkaError."""
        try:
            state = self._persister().read(key, leader_epoch=NOT_GIVEN)
            if isawaitable(state):
                await state
        except KafkaError as refusal:
            if refusal.code is not ErrorCode.INVALID_REQUEST:
                raise
            return True
        return False


def _epoch_of(shard: Shard[Groups], key: SharePartitionKey) -> int | None:
    """The epoch of the group, if it says that the state of the partition has begun."""
    if not shard.is_loaded:
        return None
    return shard.machine.share.epoch_of(key.group_id, key.topic_id, key.partition)


def _end(shard: Shard[Groups], wanted: Initialization, partitions: ByTopic, errors: Errors) -> None:
    """Tell the machine what came of it, and let it answer those who wait."""
    group_id = wanted.group_id
    if errors:
        logger.warning("partitions of %s cannot begin: %s", group_id, next(iter(errors.values())))
    done, failed = parted(partitions, errors)
    shard.machine.share.end(wanted)
    try:
        shard.perform(lambda groups, now: groups.share.ended(group_id, done, failed))
    except KafkaError as refusal:
        # They are not handed out, and the next heartbeat lets them begin again.
        logger.warning("it is not kept that partitions of %s have begun: %s", group_id, refusal)
    while shard.is_loaded and shard.machine.share.is_waited_for(group_id):
        shard.perform(lambda groups, now: groups.share.settle(group_id, now))


def places(partitions: ByTopic) -> list[tuple[Uuid, int]]:
    return [
        (topic_id, number)
        for topic_id, known in partitions.items()
        for number in sorted(known.partitions)
    ]


def parted(
    partitions: ByTopic, errors: Iterable[SharePartitionKey]
) -> tuple[dict[Uuid, Known], dict[Uuid, Known]]:
    """Those without an error, and those with one."""
    refused = {(key.topic_id, key.partition) for key in errors}
    done, failed = {}, {}
    for topic_id, (name, numbers) in partitions.items():
        bad = frozenset(number for number in numbers if (topic_id, number) in refused)
        if numbers - bad:
            done[topic_id] = Known(name, numbers - bad)
        if bad:
            failed[topic_id] = Known(name, bad)
    return done, failed


def for_each(
    keys: Iterable[SharePartitionKey],
    call: Callable[[SharePartitionKey], Awaitable[None] | None],
) -> Errors | Awaitable[Errors]:
    """Call it for each key, in turns: a group may read thousands of partitions."""
    called = answered(_call_each(keys, call))
    if not isinstance(called, _Called):
        return _rest_in_turns(called)
    return _rest(called) if called.waits else called.errors


class _Called(NamedTuple):
    errors: Errors
    waits: list[tuple[SharePartitionKey, Awaitable[None]]]


def _call_each(
    keys: Iterable[SharePartitionKey],
    call: Callable[[SharePartitionKey], Awaitable[None] | None],
) -> Work[_Called]:
    called = _Called({}, [])
    for key in keys:
        try:
            outcome = call(key)
        except KafkaError as refusal:
            called.errors[key] = refusal
        else:
            if outcome is not None:
                called.waits.append((key, outcome))
        yield
    return called


async def _rest_in_turns(calling: Awaitable[_Called]) -> Errors:
    return await _rest(await calling)


async def _rest(called: _Called) -> Errors:
    for key, outcome in called.waits:
        try:
            await outcome
        except KafkaError as refusal:
            called.errors[key] = refusal
    return called.errors
