"""What the clients of a broker do in a fault campaign, each step until it is done.

A step that is refused is tried again: a fault is there once, and what it broke has to heal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

import trio

from pyk.broker import Broker
from pyk.errors import ErrorCode
from pyk.types import Uuid
from pyk.wire.batch import check_crc, iterate_batches
from pyk.wire.compression import CorruptBatch
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.end_txn import EndTxnRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ShareFetchRequest,
)
from pyk.wire.messages.share_fetch import (
    FetchPartition as ShareFetchPartition,
)
from pyk.wire.messages.share_fetch import (
    FetchTopic as ShareFetchTopic,
)
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyk.wire.records import Record, build_batch, read_records
from tests.faults.client import Client, HungUp
from tests.faults.truth import Place, Stored, Violation, Written

Step = Callable[[], Awaitable[None]]

GROUP: Final = "readers"
SHARING: Final = "workers"
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
TRANSACTIONAL: Final = "copy"
PATIENCE: Final = 120
"""How often a step is tried, with a pause of half a second."""
BAD_BATCH: Final = "a batch that its client refuses"
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
ACCEPT, COMMIT, ABORT = 1, True, False

TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (2, {"segment.ms": "1000"}),
    "once": (1, {"segment.ms": "1000"}),
    "txn": (1, {"segment.ms": "1500"}),
    "keyed": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "1000",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
    ),
    "short": (1, {"retention.ms": "3000", "segment.ms": "1000", "file.delete.delay.ms": "1000"}),
    "trimmed": (1, {"segment.ms": "1000", "file.delete.delay.ms": "0"}),
    "jobs": (1, {"segment.ms": "1500"}),
}
RETIRED: Final = "short"
"""The topic whose segments go when they are old."""
SHORT_LIVED: Final = "comes"
_OF_DISK: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
FLUSHED: Final = "once"
"""The topic that is told to flush every record, after a while. A refusal may then come after the
record is there."""


class Refused(Violation):
    """For as long as the load has patience."""


class Load:
    """It goes on with the next broker where it was with the one before."""

    def __init__(
        self, seed: int, hit: Callable[[], Place | None], *, patience: int = PATIENCE
    ) -> None:
        """`hit` gives the partition that the fault has hit, if there was one."""
        self.patience = patience
        self.rng = Random(seed)
        self.written: dict[Place, Written] = {}
        self.now_ms: Callable[[], int] = lambda: 0
        self._hit = hit
        self._client: Client | None = None
        self._count = 0
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._once: bytes | None = None
        """What is being written by the idempotent producer."""
        self._in_transaction: bytes | None = None
        self._transactional: tuple[int, int] | None = None
        self._transactional_sequence = 0
        self._committed: set[int] = set()
        """The offsets that may be the group's."""
        self._session = 0
        self._member_epoch = 0
        self._assigned: dict[Uuid, list[int]] = {}
        self.accepted: set[int] = set()
        self._maybe_accepted: set[int] = set()
        """Those, and those of which nobody has heard whether they are."""
        self._is_there: set[str] = set()

    def again(self, patience: int) -> Load:
        """For another broker that begins from the same."""
        load = Load(0, self._hit, patience=patience)
        load.written, load._committed = self.written, self._committed
        load._is_there = self._is_there
        return load

    @property
    def places(self) -> list[Place]:
        """The partitions that are there."""
        return [place for place in self.written if place[0] in self._is_there]

    def meet(self, broker: Broker) -> None:
        """A new broker."""
        self._client = Client(broker)
        self._session = self._member_epoch = 0
        self._assigned = {}

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    # Steps

    async def begin(self) -> None:
        for name, (partitions, configs) in TOPICS.items():
            await self._create(name, partitions, configs)
        await self._configure(GROUP_RESOURCE, SHARING, {"share.auto.offset.reset": "earliest"})

    def round(self, number: int) -> list[Step]:
        """Some of everything."""
        steps: list[Step] = [
            partial(self.produce, ("plain", 0), ("plain", 1)),
            self.produce_once,
            partial(self.transaction, commits=number % 3 != 2),
            partial(self.produce, ("keyed", 0), key=b"k%d" % (number % 3)),
            partial(self.produce, ("short", 0)),
            partial(self.produce, ("trimmed", 0)),
            partial(self.produce, ("jobs", 0)),
            *self._changes(number),
            partial(self.commit, number),
            self.work,
        ]
        if number == 0:
            internal = ("__consumer_offsets", "__transaction_state", "__share_group_state")
            rolls = {"segment.ms": "1000"}
            steps += [partial(self._configure, TOPIC_RESOURCE, name, rolls) for name in internal]
        return [*steps, self.look_for_times, partial(trio.sleep, 1.2)]

    def _changes(self, number: int) -> list[Step]:
        """Topics that come and go, and their configuration."""
        create = partial(self._create, SHORT_LIVED, 1, {"segment.ms": "1000"})
        write = partial(self.produce, (SHORT_LIVED, 0))
        flushes = partial(self._configure, TOPIC_RESOURCE, FLUSHED, {"flush.messages": "1"})
        match number % 4:
            case 1:
                return [create, write]
            case 2:
                return [write, partial(self._delete, SHORT_LIVED)]
            case 3:
                return [create, write, flushes, partial(self._trim, "trimmed")]
            case _:
                return []

    async def produce(self, *places: Place, key: bytes | None = None) -> None:
        """A record each, in one request, and again what was refused of it."""
        left = {place: self._value(place, key) for place in places}

        async def attempt() -> Any:
            for place in left:
                self.written[place].attempted.add(left[place])
            batches = {p: build_batch([Record(0, self.now_ms(), key, v)]) for p, v in left.items()}
            outcomes = await self._produce(batches)
            for place, (code, offset) in outcomes.items():
                value = left.pop(place)
                if not code:
                    self._note(place, offset, value, key)
                    continue
                self._check_is_hit(place, code)
                if code == ErrorCode.KAFKA_STORAGE_ERROR:
                    self.written[place].refused.add(value)
                left[place] = self._value(place, key)
            return left

        await self._until(f"produce to {places}", attempt)

    async def produce_once(self) -> None:
        """By an idempotent producer, whose batch comes again as it is."""
        place = (FLUSHED, 0)
        value = self._once = self._once or self._value(place, None)
        self.written[place].is_idempotent = True
        self.written[place].attempted.add(value)

        async def attempt() -> Any:
            if self._producer is None:
                self._producer, code = await self._init(None)
                return code or "has a producer id now"
            producer_id, epoch = self._producer
            record = Record(0, self.now_ms(), None, value)
            data = build_batch(
                [record],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._sequence,
            )
            code, offset = (await self._produce({place: data}))[place]
            if code:
                return self._check_is_hit(place, code)
            self._note(place, offset, value, None)
            return None

        await self._until("produce once", attempt)
        self._sequence += 1
        self._once = None

    async def transaction(self, *, commits: bool) -> None:
        place = ("txn", 0)
        value = self._in_transaction = self._in_transaction or self._value(place, None)
        self.written[place].is_idempotent = True
        self.written[place].attempted.add(value)
        if not commits:
            self.written[place].aborted.add(value)
        offsets: list[int] = []
        # After the end of a broker all of it comes again: a transaction that has ended by then
        # begins anew, and ends without a record.
        for what, attempt in (
            ("begin a transaction", self._add_to_transaction),
            ("write in a transaction", lambda: self._write(place, value, offsets)),
            ("end a transaction", lambda: self._end(commits=commits)),
        ):
            await self._until(what, attempt)
        self._transactional_sequence += 1
        self._in_transaction = None
        if commits:
            self._note(place, offsets[-1], value, None)

    async def commit(self, offset: int) -> None:
        """Standing alone, without a generation."""
        self._committed.add(offset)

        async def attempt() -> Any:
            code = await self._find_coordinator()
            if code:
                return code
            topic = OffsetCommitRequestTopic(
                name="plain",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
            request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
            answer = await self.client.ask(request, 8)
            return answer.topics[0].partitions[0].error_code

        await self._until("commit an offset", attempt)
        self._committed = {offset}

    async def work(self, *, until_done: bool = False) -> None:
        """Take what the share group has, and accept it."""

        async def attempt() -> Any:
            await self._beat()
            if not self._assigned:
                return "no partitions are assigned"
            taken = await self._take([])
            again = self.accepted.intersection(taken)
            if again:
                raise Violation(f"{sorted(again)} were accepted, and are delivered again")
            if taken:
                self._maybe_accepted.update(taken)
                await self._take(taken)
                self.accepted.update(taken)
            wanted = self.written["jobs", 0].acknowledged.keys()
            left = wanted - self._maybe_accepted
            return f"{sorted(left)} were not delivered" if left and until_done else None

        await self._until("work of a share group", attempt)

    async def look_for_times(self) -> None:
        async def attempt() -> Any:
            partition = ListOffsetsPartition(partition_index=0, timestamp=self.now_ms() - 1000)
            topics = [ListOffsetsTopic(name="plain", partitions=[partition])]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
            answer = await self.client.ask(request, 7)
            return answer.topics[0].partitions[0].error_code

        await self._until("look for a time", attempt)

    async def check(self) -> None:
        """All that was acknowledged is there. Raise Violation."""
        for place in self.places:
            start, end, found = await self.read(place)
            self.written[place].check(place, start, end, found)
        await self.check_offsets()
        await self._until("list topics", self._check_topics)
        await self.work(until_done=True)

    async def check_offsets(self) -> None:
        await self._until("find the coordinator", self._find_coordinator)
        await self._until("fetch an offset", self._check_committed)

    # Parts of steps

    async def _until(self, what: str, attempt: Callable[[], Awaitable[Any]]) -> None:
        """Until there is nothing to object to."""
        outcome: Any = None
        for _ in range(self.patience):
            try:
                outcome = await attempt()
            except CorruptBatch as damage:
                outcome = f"{BAD_BATCH}: {damage}"
            except HungUp as failure:
                outcome = f"hung up: {failure}"
                self._session = 0
            if not outcome:
                return
            await trio.sleep(0.5)
        raise Refused(f"{what} is refused for {self.patience / 2:g} s: {_named(outcome)}")

    def _value(self, place: Place, key: bytes | None) -> bytes:
        self._count += 1
        value = b"%d of %s-%d " % (self._count, place[0].encode(), place[1])
        value += b"." * self.rng.choice((0, 50, 300))
        if key is not None:
            self.written[place].is_compacted = True
            self.written[place].latest.setdefault(key, []).append(value)
        return value

    def _note(self, place: Place, offset: int, value: bytes, key: bytes | None) -> None:
        written = self.written[place]
        written.acknowledged[offset] = value
        if key is not None:
            written.latest[key] = [value]
        if place[0] == RETIRED:
            written.start_max = offset + 1

    def _check_is_hit(self, place: Place, code: int) -> str:
        """Raise Violation if another partition was hit, and not this one."""
        hit = self._hit()
        is_of_disk = code in _OF_DISK
        if is_of_disk and hit is not None and hit != place and hit in self.written:
            raise Violation(f"{place} answers {_named(code)}, though only {hit} was hit")
        return f"{place}: {_named(code)}"

    async def _create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        async def attempt() -> Any:
            topic = CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
            )
            answer = await self.client.ask(CreateTopicsRequest(topics=[topic]), 5)
            code = answer.topics[0].error_code
            return code if code != ErrorCode.TOPIC_ALREADY_EXISTS else None

        await self._until(f"create {name}", attempt)
        for number in range(partitions):
            self.written[name, number] = Written()
        self._is_there.add(name)

    async def _delete(self, name: str) -> None:
        async def attempt() -> Any:
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
            answer = await self.client.ask(request, 5)
            code = answer.responses[0].error_code
            return code if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None

        await self._until(f"delete {name}", attempt)
        self._is_there.discard(name)

    async def _configure(self, kind: int, name: str, configs: dict[str, str]) -> None:
        async def attempt() -> Any:
            alterations = [
                AlterableConfig(name=key, config_operation=0, value=value)
                for key, value in configs.items()
            ]
            resource = AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=alterations
            )
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            return (await self.client.ask(request, 1)).responses[0].error_code

        await self._until(f"configure {name}", attempt)

    async def _trim(self, name: str) -> None:
        written = self.written[name, 0]
        offset = max(written.acknowledged, default=0)
        written.start_max = offset

        async def attempt() -> Any:
            partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
            topics = [DeleteRecordsTopic(name=name, partitions=partitions)]
            answer = await self.client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
            return answer.topics[0].partitions[0].error_code

        await self._until(f"delete records of {name}", attempt)

    async def _produce(
        self, batches: dict[Place, bytes], transactional_id: str | None = None
    ) -> dict[Place, tuple[int, int]]:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, number), data in batches.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index=number, records=data))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=t, partition_data=d) for t, d in topics.items()],
        )
        answer = await self.client.ask(request, 11)
        return {
            (topic.name, each.index): (each.error_code, each.base_offset)
            for topic in answer.responses
            for each in topic.partition_responses
        }

    async def _init(self, transactional_id: str | None) -> tuple[tuple[int, int] | None, int]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=600_000
        )
        answer = await self.client.ask(request, 4)
        code: int = answer.error_code
        return None if code else (answer.producer_id, answer.producer_epoch), code

    async def _add_to_transaction(self) -> Any:
        code = await self._find_coordinator(TRANSACTIONAL, 1)
        if code:
            return code
        if self._transactional is None:
            self._transactional, code = await self._init(TRANSACTIONAL)
            return code or "has a producer id now"
        producer_id, epoch = self._transactional
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="txn", partitions=[0])],
        )
        answer = await self.client.ask(request, 3)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        return results[0].partition_error_code

    async def _write(self, place: Place, value: bytes, offsets: list[int]) -> Any:
        assert self._transactional is not None
        producer_id, epoch = self._transactional
        data = build_batch(
            [Record(0, self.now_ms(), None, value)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._transactional_sequence,
            is_transactional=True,
        )
        code, offset = (await self._produce({place: data}, TRANSACTIONAL))[place]
        offsets.append(offset)
        return self._check_is_hit(place, code) if code else None

    async def _end(self, *, commits: bool) -> Any:
        assert self._transactional is not None
        producer_id, epoch = self._transactional
        request = EndTxnRequest(
            transactional_id=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commits,
        )
        return (await self.client.ask(request, 3)).error_code

    async def _find_coordinator(self, key: str = GROUP, kind: int = 0) -> Any:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return (await self.client.ask(request, 4)).coordinators[0].error_code

    async def _beat(self) -> None:
        """Be a member, and know what is assigned."""
        request = ShareGroupHeartbeatRequest(
            group_id=SHARING,
            member_id=MEMBER,
            member_epoch=self._member_epoch,
            subscribed_topic_names=["jobs"] if self._member_epoch == 0 else None,
        )
        answer = await self.client.ask(request, 1)
        if answer.error_code:
            self._member_epoch = 0
            raise HungUp(_named(answer.error_code))
        self._member_epoch = answer.member_epoch
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            self._assigned = {each.topic_id: each.partitions for each in given}

    async def _take(self, accepted: list[int]) -> list[int]:
        """Accept what was taken before, or take what there is. Raise HungUp if that fails."""
        batches = [
            AcknowledgementBatch(first_offset=o, last_offset=o, acknowledge_types=[ACCEPT])
            for o in accepted
        ]
        topics = [
            ShareFetchTopic(
                topic_id=topic_id,
                partitions=[
                    ShareFetchPartition(partition_index=0, acknowledgement_batches=batches)
                ],
            )
            for topic_id in self._assigned
        ]
        request = ShareFetchRequest(
            group_id=SHARING,
            member_id=MEMBER,
            share_session_epoch=self._session,
            max_wait_ms=0 if accepted else 200,
            min_bytes=1,
            max_records=0 if accepted else 100,
            batch_size=100,
            topics=topics,
            forgotten_topics_data=[],
        )
        answer = await self.client.ask(request, 2)
        if answer.error_code:
            self._session = 0
            raise HungUp(_named(answer.error_code))
        self._session += 1
        partitions = [each for topic in answer.responses for each in topic.partitions]
        for each in partitions:
            if each.acknowledge_error_code or each.error_code:
                # Its locks go with the connection.
                self.client.hang_up()
                raise HungUp(_named(each.acknowledge_error_code or each.error_code))
        return [
            offset
            for each in partitions
            for span in each.acquired_records
            for offset in range(span.first_offset, span.last_offset + 1)
        ]

    async def _check_committed(self) -> Any:
        topic = OffsetFetchRequestTopic(name="plain", partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
        answer = await self.client.ask(request, 7)
        if not answer.topics:
            return answer.error_code or "an empty response"
        found = answer.topics[0].partitions[0]
        code = answer.error_code or found.error_code
        if not code and found.committed_offset not in (self._committed or {-1}):
            raise Violation(f"{found.committed_offset} is committed, not {self._committed}")
        return code

    async def _check_topics(self) -> Any:
        asked = [MetadataRequestTopic(name=name) for name in (*TOPICS, SHORT_LIVED)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await self.client.ask(request, 9)
        there = {topic.name for topic in answer.topics if not topic.error_code}
        if there != self._is_there:
            raise Violation(f"{there} are there, not {self._is_there}")

    async def read(self, place: Place) -> tuple[int, int, list[Stored]]:
        """Where the log starts and ends, and all that it shows to readers of committed records."""
        found: list[Stored] = []
        offset, start, end = 0, 0, -1

        async def attempt() -> Any:
            nonlocal offset, start, end
            topic, number = place
            partition = FetchPartition(
                partition=number, fetch_offset=offset, partition_max_bytes=10_000
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                isolation_level=1,
                topics=[FetchTopic(topic=topic, partitions=[partition])],
            )
            answer = await self.client.ask(request, 11)
            if not answer.responses:
                return answer.error_code or "an empty response"
            data = answer.responses[0].partitions[0]
            may_begin_again = not found or topic == RETIRED
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and may_begin_again:
                # Retention may take what is read while a fault is waited for.
                found.clear()
                offset = await self._earliest(place)
            if data.error_code:
                return self._check_is_hit(place, data.error_code)
            start, end = data.log_start_offset, data.high_watermark
            if data.last_stable_offset != end:
                return f"its last stable offset is {data.last_stable_offset} of {end}"
            read, offset = _stored(bytes(data.records or b""), offset, data.aborted_transactions)
            found.extend(read)
            return None

        while offset != end:
            before = offset, end
            await self._until(f"read {place}", attempt)
            if (offset, end) == before:
                raise Violation(f"{place} shows nothing from {offset} on, and ends at {end}")
        return start, end, found

    async def _earliest(self, place: Place) -> int:
        partition = ListOffsetsPartition(partition_index=place[1], timestamp=-2)
        topics = [ListOffsetsTopic(name=place[0], partitions=[partition])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        offset: int = (await self.client.ask(request, 7)).topics[0].partitions[0].offset
        return max(offset, 0)


def _stored(data: bytes, offset: int, aborted: Any) -> tuple[list[Stored], int]:
    """The records from an offset on, without those of aborted transactions, and where they end."""
    found: list[Stored] = []
    to_come = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
    gone: set[int] = set()
    for position, header in iterate_batches(data, torn_tail_allowed=True):
        check_crc(data, position, header)
        while to_come and to_come[-1].first_offset <= header.last_offset:
            gone.add(to_come.pop().producer_id)
        if header.is_control:
            gone.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in gone):
            records: Iterator[Record] = read_records(data, position, header)
            found += [Stored(r.offset, r.key, r.value) for r in records if r.offset >= offset]
        offset = max(offset, header.next_offset)
    return found, offset


def _named(outcome: Any) -> str:
    return ErrorCode(outcome).name if isinstance(outcome, int) else str(outcome)
