"""What operators do about where a share group reads: move it, and forget it.

    decide -> the shell begins or deletes states -> decide on what came of it

Only a group without members lets this be done to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from pyk.coordinator.group import Surroundings
from pyk.coordinator.machine import Decision, Reply, Ticket
from pyk.coordinator.share import records
from pyk.coordinator.share.group import ShareGroup, known
from pyk.coordinator.share.partitions import ByTopic, Known, SharePartitions
from pyk.metadata.image import Topic
from pyk.types import Uuid
from pyk.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequestTopic


class Alteration(NamedTuple):
    """Partitions that are to begin anew."""

    state_epoch: int
    partitions: ByTopic


class ShareOffsets:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    def partitions(self, group_id: str, ticket: Ticket) -> Decision:
        """Those that the group may read, by topic: none if there is no such group."""
        group = self._surroundings.groups.get(group_id)
        found = group.share_partitions.initialized if isinstance(group, ShareGroup) else {}
        return Decision(replies=[Reply(ticket, found)])

    def alter(
        self, group_id: str, topics: Iterable[AlterShareGroupOffsetsRequestTopic], ticket: Ticket
    ) -> Decision:
        """Answered by an `Alteration` of those partitions that there are. Raise KafkaError."""
        is_new = group_id not in self._surroundings.groups
        group = ShareGroup(group_id) if is_new else known(self._surroundings.groups, group_id)
        group.check_delete()
        wanted = {}
        for asked in topics:
            topic = self._surroundings.image.topics.get(asked.topic_name)
            if topic is not None:
                numbers = frozenset(each.partition_index for each in asked.partitions)
                present = numbers & frozenset(range(len(topic.partitions)))
                wanted[topic.topic_id] = Known(topic.name, present)
        reply = Reply(ticket, Alteration(group.epoch, wanted))
        if not wanted:
            return Decision(replies=[reply])
        begun = group.share_partitions.begun(wanted)
        return Decision([records.share_partitions(group_id, begun)], [reply])

    def altered(self, group_id: str, done: ByTopic, failed: ByTopic, ticket: Ticket) -> Decision:
        """The state of some has begun anew, that of others has not. Answered by nothing. Raise
        KafkaError."""
        group = known(self._surroundings.groups, group_id)
        after = group.share_partitions.done(done).given_up(failed)
        return Decision([records.share_partitions(group_id, after)], [Reply(ticket, None)])

    def delete(self, group_id: str, topics: Iterable[str], ticket: Ticket) -> Decision:
        """Answered by the partitions whose state is to be deleted. Raise KafkaError."""
        group = known(self._surroundings.groups, group_id)
        group.check_delete()
        if group.partitions is None:
            return Decision(replies=[Reply(ticket, {})])
        there, doomed = group.partitions, {}
        for name in topics:
            topic = self._surroundings.image.topics.get(name)
            if topic is not None:
                if topic.topic_id in there.initialized:
                    doomed[topic.topic_id] = there.initialized[topic.topic_id]
                elif topic.topic_id in there.deleting:
                    doomed[topic.topic_id] = _all_of(topic)
        left = {t: each for t, each in there.initialized.items() if t not in doomed}
        deleting = {**there.deleting, **_names(doomed)}
        after = SharePartitions(there.initializing, left, deleting)
        return Decision([records.share_partitions(group_id, after)], [Reply(ticket, doomed)])

    def delete_all(self, group_id: str, ticket: Ticket) -> Decision:
        """The same for all that there is of a share group, before it is deleted itself. There is
        nothing of others. Raise KafkaError."""
        group = self._surroundings.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Decision(replies=[Reply(ticket, {})])
        group.check_delete()
        if group.partitions is None:
            return Decision(replies=[Reply(ticket, {})])
        there, again = group.partitions, self.half_deleted(group_id)
        doomed = SharePartitions(there.initialized).begun(there.initializing).begun(again)
        after = SharePartitions(deleting=_names(doomed.initializing))
        reply = Reply(ticket, doomed.initializing)
        return Decision([records.share_partitions(group_id, after)], [reply])

    def half_deleted(self, group_id: str) -> ByTopic:
        """What is to be deleted, or is, as far as the group's log knows."""
        group, image = self._surroundings.groups.get(group_id), self._surroundings.image
        if not isinstance(group, ShareGroup):
            return {}
        there, found = group.share_partitions, dict[Uuid, Known]()
        for topic_id in there.deleting:
            if topic_id in image.names:
                name, partitions = _all_of(image.topics[image.names[topic_id]])
                begun = there.initialized.get(topic_id)
                # Some may have begun again since.
                left = partitions if begun is None else partitions - begun.partitions
                found[topic_id] = Known(name, left)
        return found

    def has_states(self, group_id: str) -> bool:
        """Whether it is a share group that may have some."""
        group = self._surroundings.groups.get(group_id)
        return isinstance(group, ShareGroup) and group.partitions is not None

    def deleted(self, group_id: str, topics: Iterable[Uuid], ticket: Ticket) -> Decision:
        """Their states are no more. Answered by nothing."""
        done = self.forgotten(group_id, topics)
        return done._replace(replies=[Reply(ticket, None)])

    def forgotten(self, group_id: str, topics: Iterable[Uuid]) -> Decision:
        """The same, though nobody asked for it."""
        group = self._surroundings.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Decision()
        before, gone = group.share_partitions, set(topics)
        deleting = {t: name for t, name in before.deleting.items() if t not in gone}
        if deleting == before.deleting:
            return Decision()
        after = replace(before, deleting=deleting)
        return Decision([records.share_partitions(group_id, after)])


def _all_of(topic: Topic) -> Known:
    return Known(topic.name, frozenset(range(len(topic.partitions))))


def _names(topics: ByTopic) -> Mapping[Uuid, str]:
    return {topic_id: known.name for topic_id, known in topics.items()}
