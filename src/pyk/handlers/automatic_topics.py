"""Topics that are made because somebody needs them, with the broker's defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyk.coordinator.internal_topics import internal_topic
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.topics import Creation, TopicDefaults, create_topics

if TYPE_CHECKING:
    from pyk.handlers.context import Context


async def make_topics(names: Sequence[str], broker: Context) -> dict[str, KafkaError]:
    """Why some cannot be made. One that somebody else was faster to make is there."""
    config = broker.settings.config
    defaults = TopicDefaults(
        partitions=config.num_partitions, replication_factor=config.default_replication_factor
    )

    def decide(image: ClusterImage) -> Plan[list[Creation]]:
        topics = [internal_topic(name, broker.settings, image) for name in names]
        return create_topics(image, topics, defaults, broker.rng)

    return {
        name: each
        for name, each in await broker.carry_out(decide, len(names))
        if isinstance(each, KafkaError) and each.code != ErrorCode.TOPIC_ALREADY_EXISTS
    }


async def found_or_made(name: str, broker: Context) -> Topic:
    """Raise KafkaError."""
    if name not in broker.image.topics and broker.settings.config.auto_create_topics_enable:
        refusal = (await make_topics([name], broker)).get(name)
        if refusal is not None:
            raise refusal
    return broker.topic_named(name)
