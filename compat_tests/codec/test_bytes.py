"""Kafka's own serialisers and pyk write the same bytes, and read each other's, for every message.

Hypothesis makes the values: each example is one value for each version. PYK_EXAMPLES sets how many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compat_tests.codec.converters import absent_in_json, in_json
from compat_tests.kafka.oracle import Decode, Decoded, Encode, Oracle, OracleError
from compat_tests.kafka.schemas import Schema
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.codec import encode, read
from pyk.wire.fields import Field
from pyk.wire.message import layout
from tests.wire.catalogue import MESSAGES, versions
from tests.wire.strategies import INTEGERS, Pool, build, messages
from tests.wire.test_codec import joined

EXAMPLES = int(os.environ.get("PYK_EXAMPLES", "10"))
BUSY = bytes(range(1, 256)) * 4


def test_how_much_is_compared(report: Callable[[str], None]) -> None:
    pairs = sum(len(versions(declared)) for declared in MESSAGES.values())
    report(
        f"{pairs} versions of {len(MESSAGES)} messages: bytes equal to those of Kafka's serialisers"
        f" for {EXAMPLES} values each, both ways"
    )
    assert pairs > 500


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_both_write_the_same_bytes(name: str, known: dict[str, Schema], oracle: Oracle) -> None:
    declared, schema = MESSAGES[name], known[name]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.tuples(*(messages(declared, version) for version in versions(declared))))
    def every_version(values: tuple[Any, ...]) -> None:
        numbered = list(zip(versions(declared), values, strict=True))
        as_json = [in_json(message, schema.fields, version) for version, message in numbered]
        ours = [joined(encode(message, version)) for version, message in numbered]
        theirs = oracle.encode_many(
            Encode(name, version, value)
            for (version, _), value in zip(numbered, as_json, strict=True)
        )
        assert ours == theirs
        for (version, message), encoded in zip(numbered, theirs, strict=True):
            assert isinstance(encoded, bytes)
            assert read(declared, version, encoded) == (message, len(encoded))
        decoded = oracle.decode_many(
            Decode(name, version, data) for (version, _), data in zip(numbered, ours, strict=True)
        )
        assert decoded == [
            Decoded(value, len(data)) for value, data in zip(as_json, ours, strict=True)
        ]

    every_version()


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_both_refuse_what_a_version_cannot_carry(
    name: str, known: dict[str, Schema], oracle: Oracle
) -> None:
    declared, schema = MESSAGES[name], known[name]
    for version in versions(declared):
        plain = build(declared, version, Pool(BUSY))
        for ignorable, message in with_absent_fields(plain, version):
            value = absent_in_json(message, schema.fields, version)
            (theirs,) = oracle.encode_many([Encode(name, version, value)])
            if ignorable:
                # The field is left out, and Kafka leaves it out too. Only for structs its JSON
                # converter cannot be asked: it does not even read one that the version lacks.
                assert encode(message, version) == encode(plain, version)
                if not (isinstance(theirs, OracleError) and "Can't read" in theirs.message):
                    assert joined(encode(message, version)) == theirs
            else:
                assert isinstance(theirs, OracleError)
                assert theirs.exception.endswith("UnsupportedVersionException")
                with pytest.raises(KafkaError) as refused:
                    encode(message, version)
                assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def with_absent_fields(message: Any, version: int) -> Iterator[tuple[bool, Any]]:
    """The message with one field set that the version lacks, for each such field."""
    for field in layout(type(message)).fields:
        value = getattr(message, field.name)
        if not field.versions.covers(version):
            given = other_than_default(field)
            yield field.ignorable, msgspec.structs.replace(message, **{field.name: given})
        elif field.kind.struct is not None and value is not None:
            for ignorable, part in with_absent_fields(value, version):
                yield ignorable, msgspec.structs.replace(message, **{field.name: part})
        elif field.kind.element is not None and field.kind.element.struct is not None and value:
            for ignorable, part in with_absent_fields(value[0], version):
                changed = {field.name: [part, *value[1:]]}
                yield ignorable, msgspec.structs.replace(message, **changed)


def other_than_default(field: Field) -> Any:
    kind = field.kind
    if kind.struct is not None:
        return changed_struct(kind.struct)
    if kind.element is not None:
        element = kind.element
        return [element.struct()] if element.struct else [sample(element.name)]
    return (not field.default) if kind.name == "bool" else sample(kind.name)


def changed_struct(declared: type) -> Any:
    first = layout(declared).fields[0]
    return declared(**{first.name: other_than_default(first)})


def sample(kind: str) -> Any:
    if kind in INTEGERS:
        return 77
    return {"string": "given", "bytes": b"given", "uuid": bytes(range(16)), "float64": 7.5}[kind]
