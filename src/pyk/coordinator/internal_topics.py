"""The topics that coordinators keep their state on, made when they are first needed."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyk.config.settings import BrokerSettings
from pyk.metadata.image import ClusterImage
from pyk.metadata.topics import NewTopic

GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"

SEGMENT_BYTES_MIN: Final = 1024**2
"""What `segment.bytes` of a topic may be at least."""
_REPLICATION: Final = "offsets.topic.replication.factor"
_TRANSACTION_REPLICATION: Final = "transaction.state.log.replication.factor"
_TRANSACTION_MIN_ISR: Final = "transaction.state.log.min.isr"
_SHARE_REPLICATION: Final = "share.coordinator.state.topic.replication.factor"
_SHARE_MIN_ISR: Final = "share.coordinator.state.topic.min.isr"


def internal_topic(name: str, settings: BrokerSettings, image: ClusterImage) -> NewTopic:
    """How the topic of that name is made. One that is not internal is made as any other."""
    if name == GROUP_TOPIC:
        return _group_topic(settings, image)
    if name == TRANSACTION_TOPIC:
        return _transaction_topic(settings, image)
    if name == SHARE_TOPIC:
        return _share_topic(settings, image)
    return NewTopic(name=name)


def _unless_asked_for(key: str, value: int, settings: BrokerSettings, image: ClusterImage) -> int:
    """Kafka's defaults are for clusters of three, and nobody has asked for them here. Kafka itself
    refuses to make the topic then, and with it every group and every transaction."""
    if key in settings.static:
        return value
    return min(value, max(len(image.brokers), 1))


def _group_topic(settings: BrokerSettings, image: ClusterImage) -> NewTopic:
    config = settings.config
    replication_factor = _unless_asked_for(
        _REPLICATION, config.offsets_topic_replication_factor, settings, image
    )
    return NewTopic(
        name=GROUP_TOPIC,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": _segment_bytes(config.offsets_topic_segment_bytes),
        },
    )


def _transaction_topic(settings: BrokerSettings, image: ClusterImage) -> NewTopic:
    config = settings.config
    replication_factor = _unless_asked_for(
        _TRANSACTION_REPLICATION, config.transaction_state_log_replication_factor, settings, image
    )
    min_isr = _unless_asked_for(
        _TRANSACTION_MIN_ISR, config.transaction_state_log_min_isr, settings, image
    )
    return NewTopic(
        name=TRANSACTION_TOPIC,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min_isr),
            "segment.bytes": _segment_bytes(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def _share_topic(settings: BrokerSettings, image: ClusterImage) -> NewTopic:
    """It is not compacted: of a share partition's updates all count, up to its next snapshot. The
    coordinator removes what is not needed."""
    config = settings.config
    replication_factor = _unless_asked_for(
        _SHARE_REPLICATION,
        config.share_coordinator_state_topic_replication_factor,
        settings,
        image,
    )
    min_isr = _unless_asked_for(
        _SHARE_MIN_ISR, config.share_coordinator_state_topic_min_isr, settings, image
    )
    return NewTopic(
        name=SHARE_TOPIC,
        partitions=config.share_coordinator_state_topic_num_partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(min_isr),
            "retention.ms": "-1",
            "segment.bytes": _segment_bytes(config.share_coordinator_state_topic_segment_bytes),
        },
    )


def _segment_bytes(wanted: int) -> str:
    """The broker's keys take less than a topic's segment.bytes may be. Kafka then refuses to make
    the topic, and no group or transaction works."""
    return str(max(wanted, SEGMENT_BYTES_MIN))


@lru_cache(maxsize=4096)
def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that is responsible for a group, a transactional id or a
    share partition, as every broker and tool computes it: by Java's hash of the string."""
    hashed = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        hashed = (31 * hashed + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    # Java's Utils.abs: the sign bit of the least integer counts for nothing.
    signed = hashed - (1 << 32) if hashed & 0x8000_0000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
