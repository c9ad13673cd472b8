"""What is told of a topic: its summary, partitions and configuration."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from pyk.cli.output import Field, Row
from pyk.client.cluster import Cluster, Topic
from pyk.errors import KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.metadata import MetadataResponseTopic

LISTED = (
    Field("name", "its name"),
    Field("partitions", "how many it has"),
    Field("replicas", "how many each partition has"),
    Field("id", "the topic id, as Kafka prints it", is_wide=True),
    Field("internal", "whether the broker keeps it for itself", is_wide=True),
)
PARTITIONS = (
    Field("partition", "its number"),
    Field("leader", "the broker that leads it; -1 if none does"),
    Field("epoch", "how often it has had a new leader"),
    Field("replicas", "the brokers that have it"),
    Field("isr", "those of them that are in sync"),
    Field("offline", "those of them that are not reachable", is_wide=True),
    Field("log_start", "its first offset"),
    Field("high_watermark", "the offset after its last committed record"),
)
CONFIGS = (
    Field("key", "the name of the setting"),
    Field("value", "its value; null if it is a secret"),
    Field("source", "where the value is from"),
)
SUMMARY = (
    Field("name", "its name"),
    Field("id", "the topic id, as Kafka prints it"),
    Field("internal", "whether the broker keeps it for itself"),
    Field("partition_count", "how many partitions it has"),
    Field("replication_factor", "how many replicas each has"),
    Field("overrides", "what is set for this topic"),
)


def listed(found: MetadataResponseTopic) -> Row:
    return {
        "name": found.name,
        "partitions": len(found.partitions),
        "replicas": max((len(p.replica_nodes) for p in found.partitions), default=0),
        "id": printed_id(found.topic_id),
        "internal": found.is_internal,
    }


def printed_id(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def summarised(found: Topic, settings: Sequence[Row]) -> Row:
    overrides = {
        str(row["key"]): row["value"] for row in settings if row["source"] == "DYNAMIC_TOPIC_CONFIG"
    }
    return {
        "name": found.name,
        "id": printed_id(found.topic_id),
        "internal": found.is_internal,
        "partition_count": len(found.partitions),
        "replication_factor": max(
            (len(p.replica_nodes) for p in found.partitions.values()), default=0
        ),
        "overrides": overrides,
    }


def described_configs(cluster: Cluster, name: str) -> list[Row]:
    from pyk.client.configs import ConfigSource, Resource, ResourceType, describe_configs

    return [
        {
            "key": found.name,
            "value": found.value,
            "source": ConfigSource(found.config_source).name,
        }
        for found in describe_configs(cluster, Resource(ResourceType.TOPIC, name))
    ]


def min_isr(settings: Sequence[Row]) -> int:
    found = (row["value"] for row in settings if row["key"] == "min.insync.replicas")
    return int(str(next(found, 1)))


def count(row: Row, field: str) -> int:
    value = row[field]
    assert isinstance(value, list)
    return len(value)


def described_partitions(cluster: Cluster, found: Topic) -> list[Row]:
    from pyk.client.offsets import EARLIEST, LATEST, list_offsets

    led = [TopicPartition(found.name, n) for n, p in found.partitions.items() if p.leader_id >= 0]
    starts = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(led, LATEST))

    def offset(offsets: Mapping[TopicPartition, int | KafkaError], number: int) -> int | None:
        value = offsets.get(TopicPartition(found.name, number))
        return value if isinstance(value, int) else None

    return [
        {
            "partition": number,
            "leader": partition.leader_id,
            "epoch": partition.leader_epoch,
            "replicas": partition.replica_nodes,
            "isr": partition.isr_nodes,
            "offline": partition.offline_replicas,
            "log_start": offset(starts, number),
            "high_watermark": offset(ends, number),
        }
        for number, partition in found.partitions.items()
    ]
