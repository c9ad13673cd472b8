"""The configuration of groups: the broker's, and what is set for each."""

from __future__ import annotations

from collections.abc import Callable

from pyk.config.group import GroupConfig
from pyk.config.settings import BrokerSettings
from pyk.metadata.image import Configured
from pyk.metadata.mirror import Mirror


class GroupConfigs:
    """The configuration of groups, which is made of text, remembered as long as it is good."""

    def __init__(self, settings: Callable[[], BrokerSettings], mirror: Mirror) -> None:
        self._settings = settings
        self._mirror = mirror
        self._based_on: BrokerSettings | None = None
        self._made: dict[str, tuple[Configured, GroupConfig]] = {}
        self._default = GroupConfig()

    def of(self, group_id: str) -> GroupConfig:
        settings = self._settings()
        if settings is not self._based_on:
            self._based_on, self._made = settings, {}
            self._default = settings.group_config()
        configured = self._mirror.image.group_config(group_id)
        if not configured.values:
            return self._default
        known = self._made.get(group_id)
        if known is None or known[0] is not configured:
            known = configured, settings.group_config(configured.values)
            self._made[group_id] = known
        return known[1]
