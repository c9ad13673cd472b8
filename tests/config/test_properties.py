"""Properties files, as the documentation of java.util.Properties has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.config.properties import parse_properties
from pyk.errors import KafkaError

TEXTS = [
    ("", {}),
    ("\n \t\f\n\r\n", {}),
    ("# comment\n! comment\n   # comment", {}),
    ("key=value", {"key": "value"}),
    ("key:value", {"key": "value"}),
    ("key value", {"key": "value"}),
    ("  key \t=\f value  ", {"key": "value  "}),
    ("key", {"key": ""}),
    ("key=", {"key": ""}),
    ("=value", {"": "value"}),
    ("key==value", {"key": "=value"}),
    ("key = : value", {"key": ": value"}),
    ("key=a=b:c d", {"key": "a=b:c d"}),
    ("key=value # no comment", {"key": "value # no comment"}),
    ("a=1\nb=2\rc=3\r\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    ("a=1\na=2", {"a": "2"}),
    ("fruits  apple, banana, \\\n        cherry", {"fruits": "apple, banana, cherry"}),
    ("a=1\\\r\n  2\\\n3", {"a": "123"}),
    ("a=1\\\n# still the value", {"a": "1# still the value"}),
    ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("# a comment does not go on \\\nb=2", {"b": "2"}),
    ("a=1\\", {"a": "1"}),
    ("a\\ b\\=\\:c=1", {"a b=:c": "1"}),
    ("a=\\t\\n\\r\\f\\\\\\q\\#", {"a": "\t\n\r\f\\q#"}),
    ("\\u0061=\\u20AC\\u20ac", {"a": "€€"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),
    ("a=é\u0085\u2028b", {"a": "é\u0085\u2028b"}),
]


@pytest.mark.parametrize(("text", "properties"), TEXTS)
def test_texts_are_read(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u", "\\uxyzw=1", "a=\\u123g"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="hexadecimal"):
        parse_properties(text)


def escaped(text: str) -> str:
    """Every character that means something, and every one that is not ASCII, behind a backslash."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        chr(code) if chr(code).isalnum() and code < 128 else f"\\u{code:04x}" for code in codes
    )


def folded(text: str) -> str:
    """The same on two lines, with blanks that do not count."""
    middle = len(text) // 2
    # Not inside of an escape, which is six characters from its backslash.
    if "\\" in text[max(0, middle - 6) : middle]:
        return text
    return f"{text[:middle]}\\\n\t {text[middle:]}"


@given(st.dictionaries(st.text(), st.text()), st.sampled_from(["=", ":", " ", " = ", "\t:"]))
def test_what_is_escaped_comes_back(properties: dict[str, str], separator: str) -> None:
    lines = [
        f"{folded(escaped(name))}{separator}{folded(escaped(value))}\n# comment\n\n"
        for name, value in properties.items()
        if name or separator != " "
    ]
    wanted = {name: value for name, value in properties.items() if name or separator != " "}
    assert parse_properties("".join(lines)) == wanted


@given(st.text(alphabet="\\u0aA =:#!\n\r\t\f"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_properties(text)
    except KafkaError:
        return
    assert all(isinstance(value, str) for value in found.values())
