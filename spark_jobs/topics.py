"""The topics of the pipeline on a broker: made, and measured."""

from __future__ import annotations

from typing import Final

from pyk.client.cluster import Cluster
from pyk.client.offsets import EARLIEST, LATEST, find_offsets
from pyk.client.topics import create_topics
from pyk.errors import ErrorCode
from spark_jobs.schema import CLEAN, COMPACTED, CUSTOMERS, DEAD, ENRICHED, RAW, REVENUE

TOPICS: Final = (RAW, CLEAN, DEAD, ENRICHED, REVENUE, CUSTOMERS)
PARTITIONS: Final = 4


def make_topics(bootstrap_servers: str, partitions: int = PARTITIONS) -> None:
    """Those that are not there. Raise KafkaError."""
    with Cluster.connect(bootstrap_servers) as cluster:
        for topic in TOPICS:
            configs = {"cleanup.policy": "compact"} if topic in COMPACTED else {}
            made = create_topics(cluster, [topic], partitions=partitions, configs=configs)
            if (error := made[topic]) and error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error


def ends(bootstrap_servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """Where each partition begins and ends. Raise KafkaError."""
    with Cluster.connect(bootstrap_servers) as cluster:
        partitions = cluster.topic(topic).all_partitions
        first = find_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        last = find_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return {each.partition: (first[each], last[each]) for each in partitions}


def size(bootstrap_servers: str, topic: str) -> int:
    """How many offsets there are."""
    return sum(end - start for start, end in ends(bootstrap_servers, topic).values())


def are_empty(bootstrap_servers: str) -> bool:
    return not any(size(bootstrap_servers, topic) for topic in TOPICS)
