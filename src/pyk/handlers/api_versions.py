"""ApiVersions, v0-4: what this broker serves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.features import SUPPORTED_FEATURES
from pyk.metadata.image import Features
from pyk.types import Versions
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call, broker: Context) -> ApiVersionsResponse:
    if names_its_software(call):
        for given in (request.client_software_name, request.client_software_version):
            if not SOFTWARE.fullmatch(given):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"not a software name: {given!r}")
        call.peer.software_name = request.client_software_name
        call.peer.software_version = request.client_software_version
    features = broker.image.features
    if broker.api_versions is None or broker.api_versions[0] is not features:
        broker.api_versions = features, *_answers(features, broker.served)
    _, of_all, from_one = broker.api_versions
    return of_all if reads_levels_from_zero(call) else from_one


def refuse(request: ApiVersionsRequest, refusal: KafkaError) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=refusal.code, api_keys=[])


def unsupported(served: Mapping[ApiKey, Versions]) -> ApiVersionsResponse:
    """The answer, always in v0, to a client that is newer than we are (KIP-511)."""
    only = {ApiKey.API_VERSIONS: served[ApiKey.API_VERSIONS]}
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=listed(only))


def names_its_software(call: Call) -> bool:
    """KIP-511: since v3 a client says what it is."""
    return call.version >= 3


def reads_levels_from_zero(call: Call) -> bool:
    """KIP-1022: clients of v3 fail over a feature whose lowest level is zero."""
    return call.version >= 4


def listed(served: Mapping[ApiKey, Versions]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=versions.lowest, max_version=versions.highest)
        for key, versions in sorted(served.items())
    ]


def _answers(
    features: Features, served: Mapping[ApiKey, Versions]
) -> tuple[ApiVersionsResponse, ApiVersionsResponse]:
    """With all features that are supported, and without those whose lowest level is zero."""
    from_one = {name: levels for name, levels in SUPPORTED_FEATURES.items() if levels.lowest > 0}
    return _answer(features, SUPPORTED_FEATURES, served), _answer(features, from_one, served)


def _answer(
    features: Features, supported: Mapping[str, Versions], served: Mapping[ApiKey, Versions]
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=listed(served),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in supported.items()
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
        ],
    )
