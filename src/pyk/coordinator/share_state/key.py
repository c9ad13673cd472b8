"""What a share partition is called: a group, and a partition of a topic."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pyk.metadata.records import parsed, printed
from pyk.types import Uuid
from pyk.wire.payloads.share_state_records import ShareSnapshotKey, ShareUpdateKey

PARTS: Final = 3
_NUMBER: Final = re.compile(r"[+-]?\d+")
_INT32: Final = range(-(1 << 31), 1 << 31)


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def text(self) -> str:
        """The coordinator's key, as every broker and tool writes it."""
        return f"{self.group_id}:{printed(self.topic_id)}:{self.partition}"

    @property
    def of_snapshots(self) -> ShareSnapshotKey:
        return ShareSnapshotKey(
            group_id=self.group_id, topic_id=self.topic_id, partition=self.partition
        )

    @property
    def of_updates(self) -> ShareUpdateKey:
        return ShareUpdateKey(
            group_id=self.group_id, topic_id=self.topic_id, partition=self.partition
        )

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """Raise ValueError, with the reason."""
        parts = text.rstrip(":").split(":")
        if len(parts) != PARTS:
            raise ValueError(f"{text!r} is not group:topic-id:partition")
        group_id, topic_id, partition = parts
        if not group_id.strip():
            raise ValueError("a share partition has a group")
        if not _NUMBER.fullmatch(partition) or int(partition) not in _INT32:
            raise ValueError(f"{partition!r} is no partition")
        return cls(group_id.strip(), parsed(topic_id.removesuffix("==")), int(partition))
