"""What the campaigns find and cannot be mended: runs that fail so are counted, not shown."""

from __future__ import annotations

import re
from typing import Final

KNOWN: Final[dict[str, str]] = {
    # No CRC covers the offset of a batch, and gaps are legal: nothing contradicts it.
    "after a kill the last batch that was not flushed has another offset": (
        r"serves Stored\(offset=\d{3,}"
    ),
}


def known(violation: str) -> str | None:
    """What it is, if it is known."""
    found = (name for name, pattern in KNOWN.items() if re.search(pattern, violation))
    return next(found, None)
