"""A classic group."""

from __future__ import annotations

from pyk.coordinator.group import GroupType
from pyk.coordinator.machine import Record
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.payloads.classic_group_records import GroupMetadataKey


class ClassicGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state(self) -> str:
        return "Empty"

    @property
    def protocol_type(self) -> str:
        return ""

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int,
        is_transactional: bool,
    ) -> None:
        if generation >= 0 or member_id or instance_id is not None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass

    def check_offset_delete(self) -> None:
        pass

    def check_delete(self) -> None:
        pass

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def offsets_age_from(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def note_commit(self, member_id: str, now: float) -> None:
        pass

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(group=self.group_id), None)]
