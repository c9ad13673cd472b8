"""Figures, and the text that Prometheus reads. Its own client library judges the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pyk.metrics import Histogram, Sample, counter, exposition, gauge, histogram, one

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


def read(text: str) -> dict[str, list[tuple[str, dict[str, str], float]]]:
    return {
        family.name: [(sample.name, sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_a_duration_is_in_the_bucket_below_whose_bound_it_is() -> None:
    found = Histogram()
    for nanoseconds in (400, 1000, 3000, 3000, 10**6, 10**12):
        found.add(nanoseconds)
    text = exposition([histogram("took_seconds", "Time.", one(found))])
    (samples,) = read(text).values()
    buckets = {labels["le"]: value for name, labels, value in samples if name.endswith("_bucket")}
    assert buckets["1e-06"] == 1
    assert buckets["2e-06"] == 2
    assert buckets["4e-06"] == 4
    assert buckets["0.000512"] == 4
    assert buckets["0.001024"] == 5
    assert buckets["67.108864"] == 5
    assert buckets["+Inf"] == 6
    others = {name: value for name, labels, value in samples if "le" not in labels}
    assert others["took_seconds_count"] == found.count == 6
    assert others["took_seconds_sum"] == pytest.approx(1000.0010074)


def test_the_bounds_of_buckets_grow_and_the_last_is_infinite() -> None:
    text = exposition([histogram("took_seconds", "Time.", one(Histogram()))])
    (samples,) = read(text).values()
    bounds = [float(labels["le"]) for _, labels, _ in samples if "le" in labels]
    assert bounds == sorted(set(bounds))
    assert bounds[-1] == float("inf")


@given(TEXT, TEXT, st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_is_in_a_label_or_in_the_help_is_read_back(
    label: str, help: str, value: float
) -> None:
    family = gauge("a_gauge", help, [Sample({"topic": label, "partition": "0"}, value)])
    text = exposition([family, counter("after_total", "There is more.", one(7))])
    assert read(text) == {
        "a_gauge": [("a_gauge", {"topic": label, "partition": "0"}, value)],
        "after": [("after_total", {}, 7)],
    }
