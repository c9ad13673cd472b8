"""Which requests a fault is about: those of an API, a topic, a partition, a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.types import ZERO_UUID
from pyk.wire.apis import ApiKey


class Scope(Struct, frozen=True, kw_only=True):
    """What is None is any."""

    apis: frozenset[ApiKey] | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None

    def covers(self, key: ApiKey, request: Any, call: Call, broker: Context) -> bool:
        if self.apis is not None and key not in self.apis:
            return False
        if self.client_id is not None and call.client_id != self.client_id:
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(self.covers_partition(*named) for named in _named(key, request, broker))

    def covers_partition(self, topic: str, partition: int | None) -> bool:
        """A topic without a partition is all of them."""
        is_topic = self.topic in (None, topic)
        return is_topic and (partition is None or self.partition in (None, partition))

    def __str__(self) -> str:
        apis = "anything" if self.apis is None else ", ".join(sorted(key.name for key in self.apis))
        where = {"topic": self.topic, "partition": self.partition, "client": self.client_id}
        found = [f"{name} {value}" for name, value in where.items() if value is not None]
        return " of ".join([apis, *found])


def _named(key: ApiKey, request: Any, broker: Context) -> Iterator[tuple[str, int | None]]:
    """The partitions that a request is about, and the topics of which it names none."""
    if key is ApiKey.METADATA and request.topics is None:
        yield from ((name, None) for name in broker.image.topics)
    if key is ApiKey.FETCH:
        # It reads what its session knows, and names only what it adds to that.
        for each in broker.fetch_sessions.partitions_of(request.session_id):
            yield each.topic or _name_of(each, broker), each.partition
    for topic in getattr(request, "topics", None) or getattr(request, "topic_data", None) or ():
        name = _name_of(topic, broker)
        numbers = getattr(topic, "partitions", None) or getattr(topic, "partition_data", None)
        if numbers:
            yield from ((name, _number(each)) for each in numbers)
        else:
            yield name, None
    yield from ((name, None) for name in getattr(request, "topic_names", ()))


def _name_of(topic: Any, broker: Context) -> str:
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    if name:
        return str(name)
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    found = broker.image.topic_by_id(topic_id)
    return "" if found is None else found.name


def _number(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    for name in ("partition_index", "partition", "index"):
        number = getattr(partition, name, None)
        if number is not None:
            return int(number)
    raise AssertionError(f"which partition is {partition}?")
