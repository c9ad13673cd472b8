"""A coordinator of consumer groups without a loop, a disk or a network: a machine and its log.

Records are kept as the bytes that a log would have, so that a restart reads what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

from pyk.config.broker import BrokerConfig
from pyk.config.group import GroupConfig
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.coordinator.consumer.regular_expressions import Search
from pyk.coordinator.consumer.target import Assignment
from pyk.coordinator.group import INLINE_MAX, Caller, Surroundings
from pyk.coordinator.groups import Groups
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.coordinator.topic_changes import topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import Broker, ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.types import Uuid
from pyk.wire.messages.consumer_group_describe import DescribedGroup
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pyk.wire.payloads import (
    classic_group_records,
    consumer_group_records,
    offset_records,
    share_group_records,
)
from pyk.wire.prefixed import by_record_type, decode_key, decode_value, encode_key, encode_value

GROUP = "orders"
MIDNIGHT_MS = 1_700_000_000_000
INTERVAL = 1.0
"""How long a target is kept at least."""
SESSION = 45.0

_PAYLOADS = {
    name: declared
    for module in (
        classic_group_records,
        consumer_group_records,
        offset_records,
        share_group_records,
    )
    for name, declared in vars(module).items()
    if name.endswith(("Key", "Value"))
}
_KEYS = by_record_type(*(d for name, d in _PAYLOADS.items() if name.endswith("Key")))

DELETED = "deleted "
"""What the name of a topic that is gone begins with."""

Held = dict[str, set[int]]
"""Partitions by the names of their topics."""


class Answer(NamedTuple):
    member_id: str | None
    epoch: int
    held: Held | None
    """What the member is told to have, if it is told."""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    interval_ms: int = 0


class Coordinator:
    def __init__(
        self,
        topics: Mapping[str, int],
        *,
        seed: int = 0,
        inline_max: int = INLINE_MAX,
        **config: Any,
    ) -> None:
        self.config = BrokerConfig(**config)
        self.group_config = GroupConfig()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_refuses: ErrorCode | None = None
        self.now = 1000.0
        self._rng = Random(seed)
        self._last_ticket = 0
        self.answers: dict[Ticket, Any] = {}
        self.jobs_wait = False
        self.takes_jobs = True
        """Or else somebody else takes and does them."""
        self.inline_max = inline_max
        self.image = ClusterImage(brokers={1: Broker(1, 1, (), "r1", fenced=False)})
        self._begin()
        self.create(**topics)

    # What happens around it

    def restart(self) -> None:
        """Whoever waits is not answered any more."""
        self._begin()
        for key, value in self.log:
            self.groups.apply(_read(key, value))
        for _ in self.groups.check_topics(self.image):
            pass
        self.groups.on_loaded(self.now)

    def _begin(self) -> None:
        self._jobs = list[Search | Assignment]()
        self.surroundings = self.surroundings_beside()
        self.groups = Groups(self.surroundings)
        if not self.log:
            self.groups.on_loaded(self.now)

    def surroundings_beside(self) -> Surroundings:
        """Those of another coordinator in the same cluster."""
        return Surroundings(
            config=lambda: self.config,
            group_config=lambda group_id: self.group_config,
            rng=self._rng,
            now_ms=lambda: MIDNIGHT_MS + int(self.now * 1000),
            image=self.image,
            inline_max=self.inline_max,
        )

    def create(self, **counts: int) -> None:
        """Topics with so many partitions. One that there is already gets more."""
        topics = dict(self.image.topics)
        for name, count in counts.items():
            before = topics.get(name)
            topic_id = Uuid(self._rng.randbytes(16)) if before is None else before.topic_id
            partitions = tuple(PartitionState((1,), (1,), 1) for _ in range(count))
            topics[name] = Topic(name, topic_id, partitions, self.image.revision + 1)
        self._see(topics)

    def delete(self, *names: str) -> None:
        self._see({name: t for name, t in self.image.topics.items() if name not in names})

    def _see(self, topics: Mapping[str, Topic]) -> None:
        names = {topic.topic_id: name for name, topic in topics.items()}
        before = self.image
        self.image = ClusterImage(
            revision=self.image.revision + 1,
            brokers=self.image.brokers,
            topics=topics,
            names=names,
        )
        self.groups.on_image(self.image, topic_changes(before, self.image), self.now)
        self.settle()

    def pass_time(self, seconds: float = INTERVAL) -> None:
        """Do what is due in that time, each when it is."""
        until = self.now + seconds
        while (deadline := self.groups.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.perform(self.groups.expire(self.now))
        self.now = until

    def settle(self) -> None:
        """Do what is due now."""
        self.pass_time(0)

    # What members say

    def beat(
        self,
        member_id: str,
        epoch: int,
        held: Held | None = None,
        *,
        version: int = 1,
        client_id: str = "app",
        topics: Iterable[str] | None = None,
        **fields: Any,
    ) -> Answer:
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP),
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None if held is None else self._partitions(held),
            **fields,
        )
        caller = Caller(version, client_id, "/10.0.0.1")
        try:
            ticket = self.ask(
                lambda groups, ticket, now: groups.consumer_heartbeat(request, caller, ticket, now)
            )
        except KafkaError as error:
            return Answer(None, 0, None, error.code, error.message)
        found = self.answers.pop(ticket)
        if isinstance(found, KafkaError):
            return Answer(None, 0, None, found.code, found.message)
        told = None if found.assignment is None else found.assignment.topic_partitions
        return Answer(
            found.member_id,
            found.member_epoch,
            None if told is None else {self.name(t.topic_id): set(t.partitions) for t in told},
            interval_ms=found.heartbeat_interval_ms,
        )

    def join(self, member_id: str, *topics: str, **fields: Any) -> Answer:
        given = {"rebalance_timeout_ms": 60_000, **fields}
        named = topics if topics or "subscribed_topic_regex" not in fields else None
        return self.beat(member_id, 0, {}, topics=named, **given)

    def leave(self, member_id: str, **fields: Any) -> Answer:
        return self.beat(member_id, -1, **fields)

    def ask(self, decide: Callable[[Groups, Ticket, float], Decision]) -> Ticket:
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        self.perform(decide(self.groups, ticket, self.now))
        return ticket

    def perform(self, decision: Decision) -> None:
        self._perform(decision)
        if self.takes_jobs:
            self._jobs += self.groups.consumer.take_jobs()
        if not self.jobs_wait:
            self.do_jobs()

    def _perform(self, decision: Decision) -> None:
        if decision.records and self.log_refuses is not None:
            error = KafkaError(self.log_refuses)
            if decision.otherwise is None:
                self.answers.update((ticket, error) for ticket, _ in decision.replies)
                return
            decision = decision.otherwise(error)
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value, record.version)
            self.log.append((encode_key(record.key), value))
            self.groups.apply(_read(*self.log[-1]))
        self.answers.update(decision.replies)

    def do_jobs(self) -> None:
        """What takes long, and is done elsewhere."""
        while self._jobs:
            job = self._jobs.pop(0)
            for _ in job.work(lambda: 0.0):
                pass
            while job.has_found:
                self.perform(self.groups.consumer.take_result(job, self.now))
            self.groups.consumer.end_job(job)

    @property
    def has_jobs(self) -> bool:
        return bool(self._jobs)

    # What there is

    @property
    def group(self) -> ConsumerGroup:
        group = self.surroundings.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    def described(self) -> DescribedGroup:
        ticket = self.ask(
            lambda groups, ticket, now: groups.describe_consumer(GROUP, -1, ticket, now)
        )
        group = self.answers.pop(ticket)
        assert isinstance(group, DescribedGroup)
        return group

    def records(self, since: int = 0) -> list[Record]:
        return [_read(*each) for each in self.log[since:]]

    def target(self, member_id: str) -> Held:
        return {self.name(t): set(p) for t, p in self.group.targets[member_id].items()}

    def topic_id(self, name: str) -> Uuid:
        return self.image.topics[name].topic_id

    def name(self, topic_id: Uuid) -> str:
        """A deleted topic goes by its id: there may be several."""
        return self.image.names.get(topic_id, DELETED + topic_id.hex())

    def _partitions(self, held: Held) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.topic_id(name), partitions=sorted(partitions))
            for name, partitions in held.items()
            if name in self.image.topics
        ]


def _read(key: bytes, value: bytes | None) -> Record:
    found = decode_key(_KEYS, key)
    if value is None:
        return Record(found, None)
    declared = _PAYLOADS[type(found).__name__.removesuffix("Key") + "Value"]
    return Record(found, decode_value(declared, value))
