"""What classic consumers put into JoinGroup and SyncGroup. Opaque to brokers, not to tools."""

from __future__ import annotations

from pyk.wire.fields import array, bytes_, int32, string
from pyk.wire.message import message, struct


@struct
class OwnedPartitions:
    topic: str = string(versions="1+", default="")
    partitions: list[int] = array(int32, versions="1+", default=[])


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[OwnedPartitions] = array(
        OwnedPartitions, versions="1+", default=[], ignorable=True
    )
    generation_id: int = int32(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)


@struct
class AssignedPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignedPartitions] = array(AssignedPartitions)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
