"""What the campaigns find and is not mended yet: runs that fail so are counted, not shown.

An entry goes when what it names is mended. When none is left, so may this file.
"""

from __future__ import annotations

import re
from typing import Final

KNOWN: Final[dict[str, str]] = {
    "the log of an internal topic that cannot be opened ends the broker": (
        r"broker (ended|starts|does not start)(?s:.*)coordinator/shards\.py(?s:.*)in _begin"
    ),
    "an internal topic that cannot be read ends the broker while it is loaded": (
        r"broker (ended|starts|does not start)(?s:.*)(coordinator/journal\.py|in load|_load)"
    ),
    "a file that cannot be opened for a moment fails its partition until the next start": (
        r"is refused for [\d.]+ s: (.*KAFKA_STORAGE_ERROR|NOT_COORDINATOR|.*COORDINATOR_NOT_AVAIL)"
        r"|^produce to .* is refused for"
    ),
    "a partition that cannot be read fails a whole request": r"(FETCH|LIST_OFFSETS) v\d+ failed",
    "the metadata that cannot be written is not named": r"the metadata cannot be written",
    # Nothing beside it contradicts a gap, which logs of followers have, and no CRC covers offsets.
    "after a kill the last batch that was not flushed has another offset": (
        r"serves Stored\(offset=\d{3,}"
    ),
    "a log of another topic's id is set aside for a new one": (
        r"offsets: -1 is committed|, and is not damaged"
    ),
    "the store does not say that metadata.log is damaged": r"DamagedStore",
    "damage in an internal topic is passed over": r"^offsets(: | are refused)",
}


def known(violation: str) -> str | None:
    """What it is, if it is known."""
    found = (name for name, pattern in KNOWN.items() if re.search(pattern, violation))
    return next(found, None)
