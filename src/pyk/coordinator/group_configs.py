"""The configuration of groups: the broker's, and what is set for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from pyk.config.group import GROUP_KEYS, GroupConfig
from pyk.config.settings import BrokerSettings, valid
from pyk.metadata.image import Configured
from pyk.metadata.mirror import Mirror

logger = logging.getLogger(__name__)

KNOWN_MAX: Final = 10_000
"""Groups are for clients to name."""


class GroupConfigs:
    """The configuration of groups, which is made of text, remembered as long as it is good."""

    def __init__(self, settings: Callable[[], BrokerSettings], mirror: Mirror) -> None:
        self._settings = settings
        self._mirror = mirror
        self._based_on: BrokerSettings | None = None
        self._seen: Mapping[str, Configured] | None = None
        """What was configured when it was last asked: if that is the same, all is."""
        self._known: dict[str, GroupConfig] = {}
        self._made: dict[str, tuple[Configured, GroupConfig]] = {}
        self._default = GroupConfig()

    def of(self, group_id: str) -> GroupConfig:
        settings, configured = self._settings(), self._mirror.image.configured
        if settings is not self._based_on:
            self._based_on, self._made, self._seen = settings, {}, None
            self._default = settings.group_config()
        if configured is not self._seen or len(self._known) > KNOWN_MAX:
            self._seen, self._known = configured, {}
        found = self._known.get(group_id)
        if found is None:
            found = self._known[group_id] = self._of(group_id, settings)
        return found

    def _of(self, group_id: str, settings: BrokerSettings) -> GroupConfig:
        configured = self._mirror.image.group_config(group_id)
        if not configured.values:
            return self._default
        known = self._made.get(group_id)
        if known is None or known[0] is not configured:
            values = valid(
                GROUP_KEYS,
                configured.values,
                lambda refusal: logger.warning("of group %s is ignored: %s", group_id, refusal),
            )
            known = configured, settings.group_config(values)
            self._made[group_id] = known
        return known[1]
