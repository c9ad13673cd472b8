"""As much of a client as it takes to fill a broker in another process, and to look into it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Self

from pyk.errors import ErrorCode, KafkaError
from pyk.testing.record import Record, Value, from_batches, placed, to_batch, to_record
from pyk.wire.apis import ApiKey
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.request import decode_response, encode_request

if TYPE_CHECKING:
    from types import TracebackType

CLIENT_ID: Final = "pyk.testing"
VERSIONS: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.CREATE_TOPICS: 7,
}
"""The last ones that name topics."""
TIMEOUT_MS: Final = 30_000
POLL_MS: Final = 500
FETCH_BYTES: Final = 16 * 1024**2
NO_SESSION: Final = -1
EARLIEST: Final = -2


class Wire:
    """A connection. One request at a time."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self._socket = socket.create_connection(address, timeout)
        self._stream = self._socket.makefile("rb")
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        (made,) = self._ask(ApiKey.CREATE_TOPICS, creation(name, partitions, configs)).topics
        _check(made.error_code, made.error_message)

    def produce(
        self, topic: str, values: tuple[Value | Record, ...], partition: int | None
    ) -> list[Record]:
        if self._partitions_of(topic) is None:
            self.create_topic(topic, 1, {})
        written = []
        for number, records in groupby(
            (to_record(value, topic, partition) for value in values), lambda each: each.partition
        ):
            batch, now_ms = list(records), time.time_ns() // 1_000_000
            data = PartitionProduceData(index=number, records=to_batch(batch, now_ms))
            named = TopicProduceData(name=topic, partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[named])
            (answered,) = self._ask(ApiKey.PRODUCE, request).responses
            (answer,) = answered.partition_responses
            _check(answer.error_code, answer.error_message)
            written += placed(batch, answer.base_offset, now_ms)
        return written

    def records(
        self,
        topic: str,
        count: int | None,
        partition: int | None,
        start: int,
        deadline: float,
        *,
        committed: bool,
    ) -> list[Record]:
        """Raise KafkaError, and TimeoutError."""
        partitions = self._partitions_of(topic)
        if partitions is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        numbers = range(partitions) if partition is None else [partition]
        found: dict[int, list[Record]] = {number: [] for number in numbers}
        offsets = {n: max(start, first) for n, first in self._starts(topic, numbers).items()}
        while True:
            wait_ms = 0 if count is None else POLL_MS
            is_at_end = self._read_on(topic, found, offsets, wait_ms, committed=committed)
            read = [record for number in numbers for record in found[number]]
            if count is not None and len(read) >= count:
                return read[:count]
            if count is None and is_at_end:
                return read
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has {len(read)} records, not {count}")

    def _read_on(
        self,
        topic: str,
        found: dict[int, list[Record]],
        offsets: dict[int, int],
        wait_ms: int,
        *,
        committed: bool,
    ) -> bool:
        """Whether there was nothing more."""
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(committed),
            session_epoch=NO_SESSION,
            topics=[FetchTopic(topic=topic, partitions=partitions)],
            forgotten_topics_data=[],
        )
        is_at_end = True
        for answered in self._ask(ApiKey.FETCH, request).responses:
            for answer in answered.partitions:
                number = answer.partition_index
                if (
                    answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                    and answer.log_start_offset > 0
                ):
                    offsets[number] = max(offsets[number], answer.log_start_offset)
                    is_at_end = False
                    continue
                _check(answer.error_code, f"{topic}-{number}")
                data, aborted = bytes(answer.records or b""), answer.aborted_transactions or ()
                new = from_batches(data, topic, number, offsets[number], aborted)
                found[number] += new.records
                if new.next_offset > offsets[number]:
                    offsets[number] = new.next_offset
                    is_at_end = False
        return is_at_end

    def _starts(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        partitions = [
            ListOffsetsPartition(partition_index=number, timestamp=EARLIEST) for number in numbers
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
        )
        (answered,) = self._ask(ApiKey.LIST_OFFSETS, request).topics
        for answer in answered.partitions:
            _check(answer.error_code, f"{topic}-{answer.partition_index}")
        return {answer.partition_index: answer.offset for answer in answered.partitions}

    def _partitions_of(self, topic: str) -> int | None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        (found,) = self._ask(ApiKey.METADATA, request).topics
        return len(found.partitions) if not found.error_code else None

    def _ask(self, key: ApiKey, request: Any) -> Any:
        self._sent += 1
        version = VERSIONS[key]
        chunks = encode_request(key, version, self._sent, CLIENT_ID, request)
        self._socket.sendall(b"".join(chunks))  # type: ignore[arg-type]
        size = self._stream.read(4)
        if len(size) < 4:
            raise ConnectionError("the broker has hung up")
        _, response = decode_response(key, version, self._stream.read(int.from_bytes(size, "big")))
        return response


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message)


def creation(name: str, partitions: int, configs: Mapping[str, str]) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
