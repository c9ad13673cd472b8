"""A consumer group."""

from __future__ import annotations

from pyk.coordinator.classic.group import ClassicGroup


class ConsumerGroup(ClassicGroup):
    is_empty = True
