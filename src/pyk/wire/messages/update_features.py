"""UpdateFeatures: raise or lower finalized feature levels."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int8, int16, int32, string
from pyk.wire.message import message, struct


@struct
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(versions="0", default=False)
    upgrade_type: int = int8(versions="1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    results: list[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, versions="0-1", default=[], ignorable=True
    )
