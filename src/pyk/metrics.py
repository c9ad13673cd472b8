"""Figures about a broker, and how Prometheus reads them.

Whoever has something to count has a plain attribute for it, or a `Histogram`. Only when somebody
asks are families of samples made of that, and text of these: the hot path knows no labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_SHOWN: Final = 27
"""Up to 2**26 microseconds, which is about a minute."""


class Histogram:
    """Durations by powers of two: a bucket is found by the length of a number."""

    __slots__ = ("counts", "nanoseconds")

    def __init__(self) -> None:
        self.counts = [0] * 64
        """At n those below 2**n microseconds and not below half of it."""
        self.nanoseconds = 0

    def add(self, nanoseconds: int) -> None:
        self.nanoseconds += nanoseconds
        self.counts[(nanoseconds // 1000).bit_length()] += 1

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    @property
    def count(self) -> int:
        return sum(self.counts)


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float | Histogram


Samples: TypeAlias = Iterable[Sample | None]
"""Looked for while they are written. There may be a hundred thousand, and whoever writes them lets
others go on between two; None is no sample, and a place for that where a search finds little."""


class Family(Struct, frozen=True):
    """All samples of one name. A counter's name ends in `_total`, a duration's in `_seconds`."""

    name: str
    kind: Kind
    help: str
    samples: Samples


def counter(name: str, help: str, samples: Samples) -> Family:
    return Family(name, Kind.COUNTER, help, samples)


def gauge(name: str, help: str, samples: Samples) -> Family:
    return Family(name, Kind.GAUGE, help, samples)


def histogram(name: str, help: str, samples: Samples) -> Family:
    return Family(name, Kind.HISTOGRAM, help, samples)


def one(value: float | Histogram) -> list[Sample]:
    """The only sample of a family without labels."""
    return [Sample({}, value)]


def measured(value: Callable[[], float]) -> Iterator[Sample]:
    """The same, of what is only looked at when it is written."""
    yield Sample({}, value())


def exposition(families: Iterable[Family]) -> str:
    """The text that Prometheus scrapes."""
    return "".join(line for family in families for line in lines(family))


def lines(family: Family) -> Iterator[str]:
    """Of the text, one after the other, and an empty one for a place to rest."""
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind.value}\n"
    for sample in family.samples:
        if sample is None:
            yield ""
        elif isinstance(sample.value, Histogram):
            yield from _histogram_lines(family.name, sample.labels, sample.value)
        else:
            yield f"{family.name}{_labelled(sample.labels)} {_number(sample.value)}\n"


def _histogram_lines(name: str, labels: Mapping[str, str], found: Histogram) -> Iterator[str]:
    total = 0
    for power, count in enumerate(found.counts[:_BUCKETS_SHOWN]):
        total += count
        bound = _number(2**power / 1e6)
        yield f"{name}_bucket{_labelled({**labels, 'le': bound})} {total}\n"
    total = found.count
    yield f"{name}_bucket{_labelled({**labels, 'le': '+Inf'})} {total}\n"
    yield f"{name}_sum{_labelled(labels)} {_number(found.seconds)}\n"
    yield f"{name}_count{_labelled(labels)} {total}\n"


def _labelled(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
