"""CreateDelegationToken: issue a token with which others may act for its owner."""

from __future__ import annotations

from pyk.wire.fields import array, bytes_, int16, int32, int64, string
from pyk.wire.message import message, struct


@struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string(versions="3+", nullable="3+", default="")
    owner_principal_name: str | None = string(versions="3+", nullable="3+", default="")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = int16(default=0)
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+", default="")
    token_requester_principal_name: str = string(versions="3+", default="")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32(default=0)
