"""The features whose levels a cluster agrees on, and the levels that this broker knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyk.types import Versions

METADATA_VERSION: Final = "metadata.version"

SUPPORTED_FEATURES: Final[Mapping[str, Versions]] = {
    METADATA_VERSION: Versions(7, 30),
    "group.version": Versions(0, 1),
    "share.version": Versions(0, 1),
    "transaction.version": Versions(0, 2),
}
