"""UpdateFeatures, v0-2: raise or lower finalized feature levels, all of them or none.

In v0 a client may say that it allows a downgrade. Kafka 4.3 does not read that, and refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.features import METADATA_VERSION, SUPPORTED_FEATURES
from pyk.metadata.controller import Plan, set_features
from pyk.metadata.image import ClusterImage
from pyk.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

ABSENT: Final = 0
"""The level of a feature that is not finalized."""


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


async def handle(
    request: UpdateFeaturesRequest, call: Call, broker: Context
) -> UpdateFeaturesResponse:
    def decide(image: ClusterImage) -> Plan[None]:
        return set_features(image, _updated(image.features.levels, request))

    if request.validate_only:
        decide(broker.image)
    else:
        await broker.mirror.carry_out(decide)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=each.feature, error_message=ErrorCode.NONE.name)
            for each in request.feature_updates
        ],
    )


def refuse(request: UpdateFeaturesRequest, refusal: KafkaError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)


def _updated(levels: Mapping[str, int], request: UpdateFeaturesRequest) -> dict[str, int]:
    """Raise KafkaError."""
    after = dict(levels)
    for update in request.feature_updates:
        reason = _fault(update, levels.get(update.feature, ABSENT))
        if reason is not None:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. "
                f"{reason}"
            )
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
        if update.max_version_level == ABSENT:
            after.pop(update.feature, None)
        else:
            after[update.feature] = update.max_version_level
    return after


def _fault(update: FeatureUpdateKey, current: int) -> str | None:
    """What is wrong with it, in the order in which Kafka looks."""
    wanted, kind = update.max_version_level, update.upgrade_type
    supported = SUPPORTED_FEATURES.get(update.feature)
    if kind not in list(UpgradeType):
        return "There is no such upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        return "This broker does not support this feature."
    if not supported.covers(wanted):
        return f"This broker only supports versions {supported}."
    if wanted < current and kind == UpgradeType.UPGRADE:
        return "It is lower than the current one, and the upgrade type is not that of a downgrade."
    if wanted > current and kind != UpgradeType.UPGRADE:
        return "It is higher than the current one, and the upgrade type is that of a downgrade."
    if wanted < current and update.feature == METADATA_VERSION:
        return "Metadata might be lost."
    return None
