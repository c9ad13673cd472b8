"""Kafka Streams counts words exactly once, however often it and its broker are killed: with pyk.

Apache Kafka 4.3.1 is no judge of this. When it comes back from a kill it may leave a transaction
unfinished for ever, see docs/transactions.md: of four runs with it three stopped, and in one words
were counted twice.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from compat_tests.transactions.lines import PARTITIONS, Counts, Lines
from compat_tests.transactions.word_count import WordCount
from pyk.wire.apis import ApiKey
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.clients.groups.coordinator import committed_offsets
from tests.clients.mortal import MortalBroker
from tests.clients.raw import RawClient
from tests.clients.stored import create_topic, wait_until_known

LIVES = 3
AT_LEAST = 200
"""Words that are counted between two kills."""
EARLIEST, LATEST = -2, -1

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.transactions,
    pytest.mark.parametrize("mortal", ["pyk"], indirect=True),
]


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_words_are_counted_exactly_once_whoever_is_killed(
    mortal: MortalBroker, version: str, tmp_path: Path
) -> None:
    source, target = f"lines-{uuid.uuid4()}", f"counts-{uuid.uuid4()}"
    for topic in (source, target):
        create_topic(mortal.address, topic, PARTITIONS)
        wait_until_known(mortal.address, topic, PARTITIONS)
    app = WordCount(
        version,
        address=mortal.address,
        application_id=f"app-{uuid.uuid4()}",
        source=source,
        target=target,
        home=tmp_path,
    )
    lines = Lines(mortal.address, source)
    counts = Counts(mortal.address, target, int)
    try:
        for _ in range(LIVES):
            with app.life():
                counts.wait_for(counts.total + AT_LEAST, app.said)
                mortal.kill()
                mortal.start()
                counts.wait_for(counts.total + AT_LEAST, app.said)
    finally:
        lines.stop()
    with app.life():
        counts.wait_for(lines.words.total(), app.said)
        assert counts.of == lines.words
        assert_all_agree(mortal.address, app, source, lines)
    counts.close()


def assert_all_agree(address: str, app: WordCount, source: str, lines: Lines) -> None:
    """The store's changelog, the offsets that were committed, and the purge of what was between."""
    changelog = Counts(address, app.changelog_topic, lambda value: int.from_bytes(value, "big"))
    changelog.wait_for(lines.words.total(), app.said)
    assert changelog.of == lines.words
    changelog.close()
    committed = committed_offsets(address, app.application_id)
    of_source = [offset for where, offset in committed.items() if where.topic == source]
    assert sum(of_source) == lines.count == sum(offsets(address, source, LATEST))
    assert sum(offsets(address, app.repartition_topic, EARLIEST)) > 0


def offsets(address: str, topic: str, which: int) -> list[int]:
    asked = [
        ListOffsetsPartition(partition_index=number, timestamp=which)
        for number in range(PARTITIONS)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)]
    )
    with RawClient(address) as raw:
        (answer,) = raw.ask(ApiKey.LIST_OFFSETS, 5, request).topics
    assert all(each.error_code == 0 for each in answer.partitions), answer
    return [each.offset for each in answer.partitions]
