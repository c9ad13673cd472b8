"""Apache Kafka and pyk, running side by side, and what of their answers must be the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compat_tests.kafka.server import kafka_server
from pyk.errors import ErrorCode
from pyk.types import ZERO_UUID, Uuid
from pyk.wire.apis import ApiKey
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.describe_transactions import DescribeTransactionsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.clients.brokers import running
from tests.clients.raw import RawClient

HUNG_UP = "hung up"
NOBODY = Uuid(b"there is no such")
PATIENCE = 60.0
MARKER, COUNTER = "marker", "retention.ms"
OWN = frozenset(
    {
        "throttle_time_ms",
        "cluster_id",
        "host",
        "port",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "finalized_features_epoch",
    }
)
"""Ids, addresses and sizes of the machine: each side has its own."""
WORDS = frozenset(
    {
        "error_message",
        "acknowledge_error_message",
        "batch_index_error_message",
        "documentation",
    }
)
"""Sentences: that there is one is compared, and not what it says."""
NUMBERS = frozenset({"session_id", "producer_id", "previous_producer_id", "next_producer_id"})
"""Drawn by chance, or by who came first. What is compared is whether there is one."""

T = TypeVar("T")


@dataclass
class Side:
    """One of the two brokers."""

    name: str
    address: str
    topic_ids: dict[Uuid, str] = field(default_factory=lambda: {NOBODY: "nobody"})
    """The names of topics, also of those that are gone, by their ids here."""
    noted: dict[str, Any] = field(default_factory=dict)
    """What it answered that later requests need."""
    own: set[str] = field(default_factory=lambda: set(OWN))
    """Fields that are not compared."""
    _marked: int = 0

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """On a connection of its own, so that nothing that happened before matters."""
        with RawClient(self.address) as client:
            try:
                return client.ask(key, version, request)
            except (EOFError, ConnectionResetError):
                return HUNG_UP

    def id_of(self, topic: str) -> Uuid:
        """That of the last one with this name."""
        return next((i for i, name in reversed(self.topic_ids.items()) if name == topic), NOBODY)

    def create(
        self,
        *topics: str,
        partitions: int = 1,
        configs: Mapping[str, str] = {},
        called: str = "{}",
    ) -> None:
        """Make topics. In answers their ids are shown as what they are `called`, by their names."""
        wanted = [
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=k, value=text) for k, text in configs.items()],
            )
            for topic in topics
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=30_000)
        for made in self.ask(ApiKey.CREATE_TOPICS, 7, request).topics:
            assert made.error_code == 0, made.error_message
            self.topic_ids[made.topic_id] = called.format(made.name)

    def configure(self, topic: str, **values: str) -> None:
        """Keys with underscores for dots."""
        configs = [
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=text)
            for name, text in values.items()
        ]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        [done] = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert done.error_code == 0, done.error_message

    def settle(self) -> None:
        """Wait until what was changed so far has its effect.

        Kafka's controller answers, and its broker follows in the order of the changes: it shows one
        before it acts on it, and has acted on it when it shows the next.
        """
        for _ in range(2):
            self._marked += 1
            self.configure(MARKER, **{COUNTER.replace(".", "_"): str(self._marked)})
            until(lambda: self._shown() == str(self._marked))

    def _shown(self) -> str | None:
        resource = DescribeConfigsResource(
            resource_type=2, resource_name=MARKER, configuration_keys=[COUNTER]
        )
        request = DescribeConfigsRequest(resources=[resource])
        [found] = self.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        return found.configs[0].value if found.configs else None

    def plain(self, value: Any, field_name: str = "") -> Any:
        """The answer as plain values, without what must differ."""
        if isinstance(value, msgspec.Struct):
            return {
                name: self.plain(getattr(value, name), name)
                for name in value.__struct_fields__
                if name not in self.own
            }
        if isinstance(value, list):
            return [self.plain(each, field_name) for each in value]
        if field_name == "topic_id":
            return "none" if value == ZERO_UUID else self.topic_ids.get(value, "new")
        if field_name in WORDS and value:
            return "some words"
        if field_name in NUMBERS and value > 0:
            return "some number"
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return value


@dataclass
class Sides:
    kafka: Side
    pyk: Side

    @contextmanager
    @staticmethod
    def open(
        data_dir: Path, options: Mapping[str, str], only_kafka: Mapping[str, str]
    ) -> Iterator[Sides]:
        with ExitStack() as stack:
            kafka = stack.enter_context(kafka_server({**options, **only_kafka}))
            pairs = [word for pair in options.items() for word in ("-o", "=".join(pair))]
            pyk = stack.enter_context(running(data_dir, *pairs))
            sides = Sides(Side("kafka", kafka.bootstrap_servers), Side("pyk", pyk.address))
            for side in sides:
                _begin(side)
            yield sides

    def __iter__(self) -> Iterator[Side]:
        return iter((self.kafka, self.pyk))

    def each(self, do: Callable[[Side], T]) -> tuple[T, T]:
        return do(self.kafka), do(self.pyk)

    def create(self, *topics: str, partitions: int = 1, **configs: str) -> None:
        """On both sides, and wait until they can be used. Keys with underscores for dots."""
        texts = {name.replace("_", "."): text for name, text in configs.items()}
        self.each(lambda side: side.create(*topics, partitions=partitions, configs=texts))
        self.settle()

    def settle(self) -> None:
        self.each(Side.settle)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline


def _begin(side: Side) -> None:
    """Kafka answers before it has a leader for anything, and before it has ids for producers."""
    side.create(MARKER)
    wanted = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    until(lambda: side.ask(ApiKey.INIT_PRODUCER_ID, 4, wanted).error_code == 0)
    # It sends clients away until the topic of groups is there, and each part of it is loaded.
    until(lambda: side.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest()).error_code == 0)
    everywhere = [OffsetFetchRequestGroup(group_id=f"probe-{n}", topics=None) for n in range(500)]
    probe = OffsetFetchRequest(groups=everywhere)
    until(lambda: not any(g.error_code for g in side.ask(ApiKey.OFFSET_FETCH, 8, probe).groups))
    _begin_transactions(side)
    side.settle()


def _begin_transactions(side: Side) -> None:
    find = FindCoordinatorRequest(key_type=1)
    until(lambda: side.ask(ApiKey.FIND_COORDINATOR, 1, find).error_code == 0)
    probe = DescribeTransactionsRequest(transactional_ids=[f"probe-{n}" for n in range(500)])

    def is_loaded() -> bool:
        found = side.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, probe).transaction_states
        return all(e.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for e in found)

    until(is_loaded)
