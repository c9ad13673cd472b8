"""How many transactions have come and gone, for those who watch a broker."""

from __future__ import annotations

from pyk.coordinator.transactions.transaction import Status


class Tally:
    """Since the shard was loaded. An id that nothing was added to has had no transaction."""

    __slots__ = ("aborted", "committed", "started", "timed_out")

    def __init__(self) -> None:
        self.started = 0
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        """Of those that were aborted."""

    def note(self, before: Status | None, after: Status) -> None:
        """What a record says. An outcome counts when it is decided."""
        if before is Status.ONGOING:
            self.committed += after is Status.PREPARE_COMMIT
            self.aborted += after is Status.PREPARE_ABORT
        elif after is Status.ONGOING:
            self.started += 1
