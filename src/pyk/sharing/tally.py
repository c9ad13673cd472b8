"""What has become of the records of a share, counted since the broker started."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from pyk.sharing.delivery import ACQUIRED, Acknowledgement, Part


class Tally(Struct):
    deliveries: int = 0
    redeliveries: int = 0
    """Of these, those of records that somebody had before."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """By the type of acknowledgement."""
    dead_letters: int = 0
    dead_letters_lost: int = 0
    """Those that could not be written."""

    def count_delivered(self, parts: Iterable[Part]) -> None:
        """Of a change that is persisted."""
        for base, end, _, after in parts:
            if after.state is ACQUIRED:
                self.deliveries += end - base
                self.redeliveries += end - base if after.delivery_count > 1 else 0

    def count_acknowledged(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        for first, last, types in acknowledgements:
            for kind in types:
                count = last - first + 1 if len(types) == 1 else 1
                self.acknowledged[kind] = self.acknowledged.get(kind, 0) + count
