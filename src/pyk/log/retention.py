"""Which segments a log still needs, by time, by size, and by where it starts."""

from __future__ import annotations

from pyk.log.config import UNLIMITED
from pyk.log.segments import Segments


def first_kept_offset(
    segments: Segments,
    start_offset: int,
    high_watermark: int,
    now_ms: int,
    at_most: int | None = None,
) -> int:
    """Segments that end at or before this offset may go: the active one, too, if it is where the
    log ends. What is not committed stays, whatever its age. No more than some are looked at."""
    kept = _after_start(segments, start_offset)
    if segments.config.is_deleted:
        kept = max(kept, _after_time(segments, now_ms, at_most), _after_size(segments))
    if at_most is not None and len(segments.bases) > at_most:
        kept = min(kept, segments.bases[at_most])
    return min(kept, high_watermark)


def _after_start(segments: Segments, start_offset: int) -> int:
    """Records before the start are nobody's. The active segment stays: it has the end."""
    return min(start_offset, segments.bases[-1])


def _after_time(segments: Segments, now_ms: int, at_most: int | None) -> int:
    retention_ms = segments.config.retention_ms
    kept = segments.start_offset
    if retention_ms == UNLIMITED:
        return kept
    for base in segments.bases[:at_most]:
        if not segments.size_of(base) or now_ms - segments.newest_ms(base) <= retention_ms:
            break
        kept = segments.end_of(base)
    return kept


def _after_size(segments: Segments) -> int:
    retention_bytes = segments.config.retention_bytes
    kept = segments.start_offset
    if retention_bytes == UNLIMITED:
        return kept
    excess = segments.size - retention_bytes
    for base in segments.bases:
        excess -= segments.size_of(base)
        if excess < 0:
            break
        kept = segments.end_of(base)
    return kept
