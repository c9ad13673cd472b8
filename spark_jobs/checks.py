"""What an audit finds: pure comparisons of what should be with what is, and their table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_jobs.manifest import Tally


@dataclass(frozen=True, slots=True)
class Finding:
    dataset: str
    check: str
    expected: str
    found: str
    is_right: bool


class Extent(NamedTuple):
    """A partition as the broker has it and as it was read."""

    partition: int
    start: int
    end: int
    """One past the last offset."""
    rows: int
    offset_sum: int
    """Of all records: together with the count it tells a hole from a record that came twice."""
    checksum: int = 0


class Audited(NamedTuple):
    """What is to be said of a topic."""

    findings: list[Finding]
    extents: list[Extent]

    @property
    def is_right(self) -> bool:
        return all_right(self.findings)


def compare(
    dataset: str, expected: Mapping[str, Tally], found: Mapping[str, Tally]
) -> Iterator[Finding]:
    """A finding for each group that should be there, and for each that should not."""
    for group in sorted({*expected, *found}):
        wanted, is_there = expected.get(group, Tally()), found.get(group, Tally())
        yield Finding(dataset, group, _shown(wanted), _shown(is_there), wanted == is_there)


def check_density(dataset: str, extents: Sequence[Extent], *, gaps_allowed: bool) -> Finding:
    """Whether every offset is there once. With gaps allowed, there may be fewer, never more."""
    span = sum(extent.end - extent.start for extent in extents)
    count = sum(extent.rows for extent in extents)
    if gaps_allowed:
        is_right = all(extent.rows <= extent.end - extent.start for extent in extents)
        return Finding(dataset, "offsets", f"at most {span:,}", f"{count:,}", is_right)
    holes = [extent.partition for extent in extents if not _is_dense(extent)]
    found = f"{count:,}" + (f", not dense: {holes}" if holes else "")
    return Finding(dataset, "offsets", f"{span:,} dense", found, not holes)


def check_duplicates(dataset: str, surplus: int, *, are_refused: bool) -> Finding:
    wanted = "none" if are_refused else "any"
    return Finding(dataset, "duplicates", wanted, f"{surplus:,}", surplus == 0 or not are_refused)


def all_right(findings: Iterable[Finding]) -> bool:
    return all(finding.is_right for finding in findings)


def table_of(findings: Sequence[Finding]) -> str:
    rows = [("", "dataset", "check", "expected", "found")]
    rows += [
        ("ok" if each.is_right else "WRONG", each.dataset, each.check, each.expected, each.found)
        for each in findings
    ]
    return _aligned(rows)


def table_of_extents(extents: Sequence[Extent]) -> str:
    rows = [("partition", "start", "end", "records", "checksum")]
    rows += [
        (
            str(each.partition),
            f"{each.start:,}",
            f"{each.end:,}",
            f"{each.rows:,}",
            f"#{each.checksum:x}",
        )
        for each in extents
    ]
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _is_dense(extent: Extent) -> bool:
    span = extent.end - extent.start
    return extent.rows == span and extent.offset_sum == span * (extent.start + extent.end - 1) // 2


def _shown(tally: Tally) -> str:
    return f"{tally.rows:,} #{tally.checksum:x}"
