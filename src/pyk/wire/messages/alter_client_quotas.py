"""AlterClientQuotas: change the quotas of users, clients and addresses."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, float64, int16, int32, string
from pyk.wire.message import message, struct


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@struct
class AlteredEntity:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class AlteredEntry:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    entity: list[AlteredEntity] = array(AlteredEntity)


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32(default=0)
    entries: list[AlteredEntry] = array(AlteredEntry)
