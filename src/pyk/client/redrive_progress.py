"""How far dead letters have been sent back, as it is kept beside an offset of a consumer group.

    position   before this offset all are sent
    done       ranges after it, of which all are sent
    sending    what is about to be sent, said before it is

After an interruption nobody remembers whether `sending` was sent. So it says by which producer, as
which of its batches, and from which offset of the target on it is to be found if it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyk.errors import ErrorCode, KafkaError

GROUP_PREFIX: Final = "pyk.redrive/"
"""With it the names of the consumer groups begin that keep it."""
METADATA_BYTES_MAX: Final = 4000
"""A little less than what brokers let be kept with an offset."""


class Range(NamedTuple):
    base: int
    end: int


class Sending(NamedTuple):
    base: int
    end: int
    """The letters, by their offsets in the topic of dead letters."""
    partition: int
    """Where to, of the topic that they are from."""
    after: int
    """The end of that partition before."""
    producer_id: int
    producer_epoch: int
    sequence: int


class Progress(NamedTuple):
    position: int = 0
    done: Sequence[Range] = ()
    sending: Sending | None = None

    def has(self, offset: int) -> bool:
        return offset < self.position or any(base <= offset < end for base, end in self.done)

    def about(self, sending: Sending) -> Progress:
        return self._replace(sending=sending)

    def sent(self, base: int, end: int) -> Progress:
        """All from base on and before end. Nothing is about to be sent any more."""
        position, left = self.position, list[Range]()
        for each in sorted((*self.done, Range(base, end))):
            if each.base <= position:
                position = max(position, each.end)
            elif left and each.base <= left[-1].end:
                left[-1] = Range(left[-1].base, max(left[-1].end, each.end))
            else:
                left.append(each)
        return Progress(position, tuple(left))

    @property
    def metadata(self) -> str:
        """Raise KafkaError if it is too much to be kept."""
        document = {
            "done": self.done,
            "sending": None if self.sending is None else self.sending._asdict(),
        }
        text = json.dumps({key: each for key, each in document.items() if each})
        if len(text) > METADATA_BYTES_MAX:
            raise KafkaError(
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
                "so many ranges were redriven that they cannot all be remembered: redrive without "
                "--offset first",
            )
        return "" if text == "{}" else text


def parse_progress(position: int, metadata: str) -> Progress:
    """Raise KafkaError if somebody else has committed there."""
    try:
        document = json.loads(metadata or "{}")
        done = tuple(Range(int(base), int(end)) for base, end in document.get("done", ()))
        sending = document.get("sending")
        return Progress(position, done, Sending(**sending) if sending else None)
    except (ValueError, TypeError, AttributeError) as wrong:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"what is kept of a redrive cannot be read: {metadata!r}"
        ) from wrong
