"""What is done for logs now and then."""

from __future__ import annotations

import trio
import trio.testing
from msgspec.structs import replace

from pyk.config.settings import BrokerSettings
from pyk.log.checkpoints import RECOVERY_POINTS, read_offsets
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.directory import DataDirectory
from pyk.offload import at_once
from pyk.replication.checkpoints import Checkpoints
from pyk.replication.topic_logs import TopicLogs
from pyk.replication.upkeep import Care, Upkeep
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch
from tests.simulated_disk import ROOT, SimulatedDisk

PARTITION = TopicPartition("orders", 0)
CARE = Care(checkpoint_seconds=5, compaction_seconds=15, retention_seconds=60)
SMALL = LogConfig(segment_bytes=600, file_delete_delay_ms=0, retention_ms=100)


async def test_logs_are_retired_compacted_and_checkpointed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk()
    directory = DataDirectory.open(disk, ROOT / "data", lambda _: SMALL)
    log = directory.create(PARTITION, Uuid(b"the topic's uuid"), SMALL)
    logs = TopicLogs(directory, lambda _: BrokerSettings().topic_config({}), offload=at_once)
    upkeep = Upkeep(
        logs, Checkpoints(directory, at_once), lambda: 1_000, lambda: CARE, offload=at_once
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(upkeep.run)
        add(log, *(batch(i) for i in range(40)))
        log.advance_high_watermark(40)
        log.flush()
        await trio.sleep(CARE.checkpoint_seconds + 1)
        assert read_offsets(disk, directory.path / RECOVERY_POINTS) == {PARTITION: 40}

        compacted = frozenset({CleanupPolicy.COMPACT})
        log.config = replace(SMALL, cleanup_policy=compacted)
        size = log.size
        await trio.sleep(CARE.compaction_seconds)
        assert log.size < size
        assert log.cleaned_until > 0

        log.config = SMALL
        await trio.sleep(60)
        assert log.start_offset == 40
        nursery.cancel_scope.cancel()
