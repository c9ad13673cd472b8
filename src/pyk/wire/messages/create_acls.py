"""CreateAcls: add access rules."""

from __future__ import annotations

from pyk.wire.fields import array, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult)
