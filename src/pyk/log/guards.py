"""What a partition wants to be shown before the first batch of a transaction (KIP-890)."""

from __future__ import annotations

from typing import Final

from pyk.wire.batch import BatchHeader

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1


class Guard:
    """Given to whoever asks the coordinator if a producer has a transaction here. It is good until
    the producer's next batch or marker: an answer from before that says nothing about after.

    It knows the lowest sequence that was asked for. A batch behind that one must not be taken
    first, even by a partition that has nothing of the producer yet: the coordinator may have been
    away for the one, which comes again, and back for the other.
    """

    __slots__ = ("epoch", "is_old", "lowest_sequence")

    def __init__(self) -> None:
        self.epoch, self.lowest_sequence = NO_EPOCH, NO_SEQUENCE
        self.is_old = False

    def note(self, epoch: int, sequence: int) -> None:
        """Somebody asks. Offsets have no sequences."""
        if sequence == NO_SEQUENCE:
            return
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence

    def is_passed_over_by(self, header: BatchHeader) -> bool:
        return header.producer_epoch == self.epoch and header.base_sequence > self.lowest_sequence


UNGUARDED: Final = Guard()
"""Of those who need not ask."""
