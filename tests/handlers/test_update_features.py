"""UpdateFeatures: levels go up, and down for who says so, all of them or none."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import update_features
from pyk.handlers.context import Context
from pyk.handlers.update_features import UpgradeType
from pyk.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.handlers.brokers import FEATURES, ask

UPGRADE, SAFE, UNSAFE = UpgradeType
TRANSACTIONS, GROUPS, METADATA = "transaction.version", "group.version", "metadata.version"


async def answered(
    broker: Context,
    *updates: tuple[str, int, int],
    version: int = 2,
    validate_only: bool = False,
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
            for feature, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return await ask(update_features.handle, update_features.refuse, request, broker, version)


def levels(broker: Context) -> dict[str, int]:
    return dict(broker.image.features.levels)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_level_goes_down_and_up_again(broker: Context, version: int) -> None:
    response = await answered(broker, (TRANSACTIONS, 1, SAFE), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert levels(broker) == FEATURES | {TRANSACTIONS: 1}
    epoch = broker.image.features.epoch
    await answered(broker, (TRANSACTIONS, 2, UPGRADE), version=version)
    assert levels(broker) == FEATURES
    assert broker.image.features.epoch > epoch


async def test_at_level_zero_a_feature_is_not_finalized(broker: Context) -> None:
    await answered(broker, (GROUPS, 0, UNSAFE))
    assert GROUPS not in levels(broker)
    await answered(broker, (GROUPS, 1, UPGRADE))
    assert levels(broker) == FEATURES


@pytest.mark.parametrize(
    "update",
    [
        ("nope", 1, UPGRADE),
        ("", 1, UPGRADE),
        (TRANSACTIONS, 3, UPGRADE),
        (TRANSACTIONS, 1, UPGRADE),
        (TRANSACTIONS, -1, SAFE),
        (TRANSACTIONS, 2, 0),
        (TRANSACTIONS, 2, 9),
        (METADATA, 31, UPGRADE),
        (METADATA, 25, SAFE),
        (METADATA, 25, UNSAFE),
        (METADATA, 6, SAFE),
    ],
)
async def test_one_bad_update_refuses_all(broker: Context, update: tuple[str, int, int]) -> None:
    response = await answered(broker, (GROUPS, 0, SAFE), update, version=1)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message
    assert f"version {update[1]} for feature {update[0]}." in response.error_message
    assert response.results == []
    assert levels(broker) == FEATURES


@pytest.mark.parametrize("kind", UpgradeType)
async def test_the_level_that_it_has_may_be_asked_for(broker: Context, kind: int) -> None:
    response = await answered(broker, (TRANSACTIONS, 2, kind), (METADATA, 30, kind))
    assert response.error_code == ErrorCode.NONE


async def test_a_downgrade_cannot_be_to_a_higher_level(broker: Context) -> None:
    await answered(broker, (TRANSACTIONS, 1, SAFE))
    response = await answered(broker, (TRANSACTIONS, 2, SAFE))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("version", "count"), [(0, 2), (1, 2), (2, 0)])
async def test_before_v2_each_feature_has_a_result(
    broker: Context, version: int, count: int
) -> None:
    updates = [(TRANSACTIONS, 2, UPGRADE)] * 2
    response = await answered(broker, *updates, version=version)
    results = [(each.feature, each.error_code, each.error_message) for each in response.results]
    assert results == [(TRANSACTIONS, 0, "NONE")] * count


async def test_a_downgrade_in_v0_is_refused_even_if_it_is_allowed(broker: Context) -> None:
    update = FeatureUpdateKey(feature=GROUPS, max_version_level=0, allow_downgrade=True)
    response = await ask(
        update_features.handle,
        update_features.refuse,
        UpdateFeaturesRequest(feature_updates=[update]),
        broker,
        0,
    )
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("level", [1, 9])
async def test_what_is_only_validated_stays_as_it_is(broker: Context, level: int) -> None:
    response = await answered(broker, (TRANSACTIONS, level, SAFE), validate_only=True)
    assert bool(response.error_code) == (level == 9)
    assert levels(broker) == FEATURES


async def test_no_updates_are_no_fault(broker: Context) -> None:
    assert (await answered(broker)).error_code == ErrorCode.NONE
