"""What a group notes of the topics that it subscribes to: a number that changes when they do.

The number is Kafka's (XXH3 over ids, names, partitions and racks), so that a group which moves from
one broker to the other is not rebalanced for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from struct import Struct, pack

from xxhash import xxh3_64_intdigest

from pyk.metadata.image import ClusterImage, Topic
from pyk.turns import Work

_INT = Struct("<i")
_MAGIC = b"\0"


class TopicHashes:
    """Those of topics that somebody asked for, as long as the topics stay as they are."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Topic, int]] = {}

    def of_all(self, names: Iterable[str], image: ClusterImage) -> int:
        """Of all these topics together, or 0 if there are none of them."""
        found = [image.topics[name] for name in sorted(names) if name in image.topics]
        if not found:
            return 0
        numbers = [self._of(topic, image) for topic in found]
        return _signed(pack(f"<{len(numbers)}q", *numbers))

    def _of(self, topic: Topic, image: ClusterImage) -> int:
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        if known is not None and topic.has_shape_of(known[0]):
            number = known[1]
        else:
            number = topic_hash(topic, image)
        self._known[topic.name] = topic, number
        return number

    def learn_in_turns(self, names: Iterable[str], image: Callable[[], ClusterImage]) -> Work[None]:
        """Compute those that are not known, so that `of_all` finds them. Topics may change between
        the turns: `image` is the newest one."""
        for name in names:
            now = image()
            topic = now.topics.get(name)
            if topic is not None:
                self._of(topic, now)
                yield

    def learn(self, known: Mapping[str, tuple[Topic, int]]) -> None:
        """Take those that somebody has computed elsewhere."""
        self._known.update(known)

    def forget(self, names: Set[str]) -> None:
        """Of many topics that change, the groups of most shards subscribe to few."""
        known = self._known
        few, many = (known, names) if len(known) < len(names) else (names, known)
        for name in [name for name in few if name in many]:
            del known[name]


def topic_hash(topic: Topic, image: ClusterImage) -> int:
    parts = [
        _MAGIC,
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        _string(topic.name),
        _INT.pack(len(topic.partitions)),
    ]
    for number, partition in enumerate(topic.partitions):
        parts.append(_INT.pack(number))
        brokers = map(image.brokers.get, partition.replicas)
        racks = [each.rack for each in brokers if each is not None and each.rack is not None]
        for rack in sorted(racks):
            parts += _INT.pack(_length(rack)), _string(rack)
    return _signed(b"".join(parts))


def _string(text: str) -> bytes:
    """UTF-16 and then its length, as the library writes it that Kafka uses."""
    data = text.encode("utf-16-le")
    return data + _INT.pack(len(data) // 2)


def _length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _signed(data: bytes) -> int:
    number: int = xxh3_64_intdigest(data)
    return number - (1 << 64) if number >> 63 else number
