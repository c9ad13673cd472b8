"""What is written down of some offsets of a share partition."""

from __future__ import annotations

from typing import NamedTuple


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
