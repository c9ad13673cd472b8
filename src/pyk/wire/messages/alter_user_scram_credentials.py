"""AlterUserScramCredentials: set or delete users' SCRAM credentials."""

from __future__ import annotations

from pyk.wire.fields import array, bytes_, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
