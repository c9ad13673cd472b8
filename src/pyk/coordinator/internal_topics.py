"""The topics that coordinators keep their state on, made when they are first needed."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyk.config.settings import BrokerSettings
from pyk.metadata.image import ClusterImage
from pyk.metadata.topics import NewTopic

GROUP_TOPIC: Final = "__consumer_offsets"

_REPLICATION: Final = "offsets.topic.replication.factor"


def internal_topic(name: str, settings: BrokerSettings, image: ClusterImage) -> NewTopic:
    """How the topic of that name is made. One that is not internal is made as any other."""
    if name != GROUP_TOPIC:
        return NewTopic(name=name)
    config = settings.config
    replication_factor = config.offsets_topic_replication_factor
    if _REPLICATION not in settings.static:
        # Kafka's default of three is for clusters, and nobody has asked for it here. Kafka itself
        # refuses to make the topic then, and with it every group.
        replication_factor = min(replication_factor, max(len(image.brokers), 1))
    return NewTopic(
        name=name,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


@lru_cache(maxsize=4096)
def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that is responsible for a group or a transactional id, as
    every broker and tool computes it: by Java's hash of the string."""
    hashed = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        hashed = (31 * hashed + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    # Java's Utils.abs: the sign bit of the least integer counts for nothing.
    signed = hashed - (1 << 32) if hashed & 0x8000_0000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
