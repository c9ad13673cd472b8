"""Formats with percent signs, for output and for input."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.cli.formats import BadInput, InputParser, Parsed, compile_output
from pyk.wire.records import Record

RECORD = Record(7, 1234, b"k\xff", b"value", (("a", b"1"), ("b", None)))
TOMBSTONE = Record(8, -1, None, None)


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("%t %p %o %T", b"orders 3 7 1234"),
        ("%k=%v", b"k\xff=value"),
        ("%s %S %V %K", b"value 5 5 2"),
        ("[%h]", b"[a=1,b]"),
        (r"100%%\t\\\x41\0\n", b"100%\t\\A\0\n"),
        ("ä", "ä".encode()),
    ],
)
def test_a_record_is_printed_by_a_template(template: str, printed: bytes) -> None:
    assert compile_output(template)("orders", 3, RECORD) == printed


def test_null_is_printed_as_nothing_and_its_size_as_minus_one() -> None:
    assert compile_output("[%k][%v] %K %V")("orders", 0, TOMBSTONE) == b"[][] -1 -1"


@pytest.mark.parametrize("template", ["%x", "100%", "\\", r"\q", r"\x4", r"\xzz"])
def test_what_a_template_cannot_have_is_wrong_usage(template: str) -> None:
    with pytest.raises(click.UsageError):
        compile_output(template)


@pytest.mark.parametrize("template", ["%k%v\n", "%v", "%T\n", "only text", "%t %v\n", "%K%k%v\n"])
def test_a_template_must_say_where_fields_end(template: str) -> None:
    with pytest.raises(click.UsageError):
        InputParser.compile(template)


def parsed(template: str, *chunks: bytes) -> list[Parsed]:
    parser = InputParser.compile(template)
    found = [each for chunk in chunks for each in parser.feed(chunk)]
    return [*found, *parser.close()]


def test_lines_are_values() -> None:
    found = parsed(r"%v\n", b"one\ntwo\n\nth", b"ree")
    assert [each.value for each in found] == [b"one", b"two", b"", b"three"]
    assert [each.key for each in found] == [None] * 4


def test_a_field_ends_where_the_text_after_it_begins() -> None:
    (found,) = parsed(r"%p %T %h|%k=>%v;\n", b"3 99 a=1,b|key=>va;lue;\n")
    assert found == Parsed(b"key", b"va;lue", (("a", b"1"), ("b", None)), 99, 3)


def test_a_delimiter_that_comes_in_two_pieces_is_one() -> None:
    assert [each.value for each in parsed("%v<END>", b"a<EN", b"D>b<END>")] == [b"a", b"b"]


def test_a_line_without_its_separator_does_not_go_on_to_that_of_the_next() -> None:
    parser = InputParser.compile(r"%k:%v\n")
    taken: list[Parsed] = []
    with pytest.raises(BadInput, match=r"record 2 of the input: there is no b':' in b'two'"):
        taken += parser.feed(b"one:1\ntwo\nthree:3\n")


@pytest.mark.parametrize(
    ("template", "data"),
    [(r"%T %v\n", b"soon x\n"), (r"%K %k%v\n", b"-2 x\n"), (r"%K %k:%v\n", b"9 x\n")],
)
def test_input_that_is_not_as_the_template_says_is_an_error(template: str, data: bytes) -> None:
    with pytest.raises(BadInput, match="record 1"):
        parsed(template, data)


NULLABLE = st.none() | st.binary(max_size=20)


@given(st.lists(st.tuples(NULLABLE, NULLABLE), max_size=5), st.integers(1, 50))
def test_what_is_printed_with_sizes_is_read_back(
    pairs: list[tuple[bytes | None, bytes | None]], cut: int
) -> None:
    template = r"%T %K %V %k%v\n"
    output = compile_output(template)
    data = b"".join(output("t", 0, Record(0, 5, key, value)) for key, value in pairs)
    chunks = [data[at : at + cut] for at in range(0, len(data), cut)]
    found = parsed(template, *chunks)
    assert [(each.key, each.value) for each in found] == pairs
