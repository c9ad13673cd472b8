"""A new target for a group: what each of its members should have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pyk.coordinator.assigned import Targets, TopicIds
from pyk.coordinator.consumer import range, uniform
from pyk.coordinator.consumer.assignors import RANGE, UNIFORM, Assignor, Subscriber
from pyk.coordinator.consumer.group import ConsumerGroup, topics_of
from pyk.coordinator.consumer.member import Member
from pyk.errors import KafkaError
from pyk.metadata.image import ClusterImage

ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniform.assign, RANGE: range.assign}


class Assignment:
    """A new target of a group, by the ids of all members, of which one is now as it is `after` its
    heartbeat. That member may be new, or the same instance as one that it takes the place of.

    What it is made of is looked at once, and nothing of it changes: it may be made in any thread.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        after: Member,
        assignor: str,
        image: ClusterImage,
        epoch: int,
    ) -> None:
        self.group_id = group.group_id
        self.epoch = epoch
        """That of the group which the target is for."""
        self.group: ConsumerGroup | None = None
        """Which that is, once it has the epoch. Not to be looked at in other threads."""
        self.given_up: Sequence[str] = ()
        self.refusal: KafkaError | None = None
        """What the log said to the target."""
        self.targets: Targets | None = None
        self._replaced = predecessor(group, after)
        self._after = after
        self.members = {**group.members}
        self.members.pop(self._replaced, None)
        self.members[after.member_id] = after
        self._matches = {**group.matches}
        self._before = {**group.targets}
        self._assignor = ASSIGNORS[assignor]
        self._image = image

    def is_larger_than(self, effort_max: int) -> bool:
        """Whether there are more subscriptions and partitions together."""
        effort, topics = 0, self._image.topics
        seen = set[tuple[frozenset[str], str]]()
        for member in self.members.values():
            subscription = member.subscribed_topic_names, member.subscribed_topic_regex
            named = self._topics_of(member)
            effort += len(named)
            if effort <= effort_max and subscription not in seen:
                seen.add(subscription)
                effort += sum(len(topics[name].partitions) for name in named if name in topics)
            if effort > effort_max:
                return True
        return False

    def is_for(self, group: ConsumerGroup, image: ClusterImage) -> bool:
        """Whether the group has become what the target is for. It has not if the log refused what
        the member said."""
        members, known, matches = self.members, group.members, self._matches
        return (
            group.epoch == self.epoch
            and image is self._image
            and known.keys() == members.keys()
            and all(
                (member.subscribed_topic_names, member.subscribed_topic_regex)
                == (
                    known[member_id].subscribed_topic_names,
                    known[member_id].subscribed_topic_regex,
                )
                for member_id, member in members.items()
            )
            and all(matches.get(regex) == group.matches.get(regex) for regex in group.regex_counts)
        )

    @property
    def has_found(self) -> bool:
        return self.targets is not None

    def take_found(self) -> Targets:
        targets, self.targets = self.targets, None
        assert targets is not None
        return targets

    def make(self) -> Targets:
        topics, image = TopicIds(self._image), self._image
        subscribers = {
            member_id: Subscriber(
                topics.of(self._topics_of(member)),
                self._before.get(self._replaced if member is self._after else member_id, {}),
                member.instance_id,
            )
            for member_id, member in self.members.items()
        }
        counts = {
            topic_id: len(image.topics[image.names[topic_id]].partitions)
            for topic_id in sorted(set().union(*(each.topics for each in subscribers.values())))
        }
        return self._assignor(subscribers, counts)

    def work(self, clock: Callable[[], float]) -> Iterator[None]:
        """All in one step."""
        self.targets = self.make()
        yield

    def _topics_of(self, member: Member) -> frozenset[str]:
        return topics_of(member, self._matches)


def predecessor(group: ConsumerGroup, member: Member) -> str:
    """The id of the member whose target a member inherits: mostly its own."""
    if member.instance_id is None:
        return member.member_id
    return group.static_members.get(member.instance_id, member.member_id)
