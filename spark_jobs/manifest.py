"""What was sent and what must come of it, for the audit: a count and a checksum for each group of
the records of a topic.

A checksum is a sum of hashes, so that neither the order of records matters nor who counts them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self


class Tally(NamedTuple):
    rows: int = 0
    checksum: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(self.rows + other.rows, self.checksum + other.checksum)


Tallies = dict[str, Tally]
"""By group: the type of an event, the error of a dead letter, the state of an order."""


def total(tallies: Mapping[str, Tally]) -> Tally:
    found = Tally()
    for tally in tallies.values():
        found = found.plus(tally)
    return found


@dataclass(frozen=True, slots=True)
class Manifest:
    plan: Mapping[str, Any]
    """What the generator was told: enough to send the same again."""
    topics: Mapping[str, Tallies]
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many of what was sent are malformed, late, duplicates; for people."""

    def save(self, path: Path) -> None:
        """It is there as a whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        topics = {
            topic: {group: Tally(*figures) for group, figures in groups.items()}
            for topic, groups in found["topics"].items()
        }
        return cls(plan=found["plan"], topics=topics, counts=found["counts"])
