"""Values as Java reads and writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.config.values import Value, ValueType, format_value, parse
from pyk.errors import ErrorCode, KafkaError

GOOD: list[tuple[ValueType, str, Value]] = [
    (ValueType.BOOLEAN, " TRUE ", True),
    (ValueType.BOOLEAN, "false", False),
    (ValueType.INT, "+7", 7),
    (ValueType.INT, "-2147483648", -(2**31)),
    (ValueType.SHORT, "32767", 32767),
    (ValueType.LONG, " 9223372036854775807\t", 2**63 - 1),
    (ValueType.DOUBLE, ".5", 0.5),
    (ValueType.DOUBLE, "5.", 5.0),
    (ValueType.DOUBLE, "0.5d", 0.5),
    (ValueType.DOUBLE, "0x1p-1", 0.5),
    (ValueType.DOUBLE, "-Infinity", -math.inf),
    (ValueType.LIST, "", ()),
    (ValueType.LIST, " a , b,c ", ("a", "b", "c")),
    (ValueType.LIST, "a,b,a", ("a", "b")),
    (ValueType.STRING, " a b ", "a b"),
    (ValueType.CLASS, " org.example.Thing ", "org.example.Thing"),
    (ValueType.PASSWORD, " secret ", "secret"),
]

BAD = [
    (ValueType.BOOLEAN, "yes"),
    (ValueType.BOOLEAN, ""),
    (ValueType.INT, "2147483648"),
    (ValueType.INT, "1_000"),
    (ValueType.INT, "0x10"),
    (ValueType.INT, "1.0"),
    (ValueType.INT, ""),
    (ValueType.INT, "\xa05"),
    (ValueType.SHORT, "32768"),
    (ValueType.LONG, "9" * 100_000),
    (ValueType.DOUBLE, "half"),
    (ValueType.DOUBLE, "1_0.0"),
    (ValueType.DOUBLE, "infinity"),
    (ValueType.DOUBLE, "0.5fd"),
    (ValueType.LIST, "a,,b"),
    (ValueType.LIST, ","),
]

WRITTEN: list[tuple[Value, str | None]] = [
    (None, None),
    (True, "true"),
    (False, "false"),
    (-1, "-1"),
    (("a", "b"), "a,b"),
    ((), ""),
    ("text", "text"),
    (0.5, "0.5"),
    (1.0, "1.0"),
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (0.001, "0.001"),
    (0.00099, "9.9E-4"),
    (1e-9, "1.0E-9"),
    (9_999_999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (-1.25e100, "-1.25E100"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
]


@pytest.mark.parametrize(("value_type", "text", "value"), GOOD)
def test_texts_are_read(value_type: ValueType, text: str, value: Value) -> None:
    assert parse("a.key", value_type, text) == value


@pytest.mark.parametrize(("value_type", "text"), BAD)
def test_bad_texts_are_refused_with_the_name_of_the_key(value_type: ValueType, text: str) -> None:
    with pytest.raises(KafkaError, match=r"a\.key") as refused:
        parse("a.key", value_type, text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_values_are_written(value: Value, text: str | None) -> None:
    assert format_value(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_survives_being_written(value: float) -> None:
    text = format_value(value)
    assert text is not None
    assert parse("a.key", ValueType.DOUBLE, text) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_survives_being_written(value: int) -> None:
    text = format_value(value)
    assert text is not None
    assert parse("a.key", ValueType.LONG, text) == value
