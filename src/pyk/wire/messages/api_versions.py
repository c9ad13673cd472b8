"""ApiVersions: what the broker speaks and which features are on. A connection's first words."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int16, int32, int64, string
from pyk.wire.message import message, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = string(versions="3+", default="", ignorable=True)
    client_software_version: str = string(versions="3+", default="", ignorable=True)


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string(versions="3+", default="")
    min_version: int = int16(versions="3+", default=0)
    max_version: int = int16(versions="3+", default=0)


@struct
class FinalizedFeatureKey:
    name: str = string(versions="3+", default="")
    max_version_level: int = int16(versions="3+", default=0)
    min_version_level: int = int16(versions="3+", default=0)


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int = int16(default=0)
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, versions="3+", default=[], tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64(versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, versions="3+", default=[], tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean(versions="3+", default=False, tag=3, ignorable=True)
